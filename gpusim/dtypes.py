"""Number formats of tensors and their sizes."""

from enum import StrEnum


class DType(StrEnum):
    """A storage format; the value is the name used in YAML, CSV and results."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"

    @property
    def size_bytes(self) -> int:
        """Bytes one element occupies."""
        return 4 if self is DType.FP32 else 2
