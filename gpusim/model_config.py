"""Heads of a language model, from its Hugging Face `config.json`, as fields of an attention workload.

Read are the names of Llama and of GPT-2, the multi-query flag of Falcon, and the multi-head latent attention (MLA) of
DeepSeek, whose keys and values count as expanded for every head, as a prefill computes them. Lengths and number formats
are left to the workload, and so is a window that only some of the layers have.
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from gpusim.errors import ScenarioError
from gpusim.strict_yaml import PositiveWhole, problems_from, read_text

_FULL, _SLIDING = "full_attention", "sliding_attention"


class ModelConfig(BaseModel):
    """What a model's config states about its attention. A key that is null counts as absent; other keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    model_type: str | None = None
    num_hidden_layers: PositiveWhole | None = None
    num_attention_heads: PositiveWhole | None = None
    n_head: PositiveWhole | None = None
    num_key_value_heads: PositiveWhole | None = None
    num_kv_heads: PositiveWhole | None = None
    multi_query: bool | None = None
    new_decoder_architecture: bool | None = None
    hidden_size: PositiveWhole | None = None
    n_embd: PositiveWhole | None = None
    head_dim: PositiveWhole | None = None
    kv_lora_rank: PositiveWhole | None = None
    qk_nope_head_dim: PositiveWhole | None = None
    qk_rope_head_dim: PositiveWhole | None = None
    v_head_dim: PositiveWhole | None = None
    sliding_window: PositiveWhole | None = None
    use_sliding_window: bool | None = None
    max_window_layers: int | None = None
    layer_types: list[str] | None = None
    sliding_window_pattern: object = None
    attention_chunk_size: object = None
    global_attn_every_n_layers: object = None

    @property
    def heads(self) -> int | None:
        """Query heads, by either name."""
        return self.num_attention_heads or self.n_head

    @property
    def is_mla(self) -> bool:
        """Whether keys and values come out of one latent vector a token."""
        return any(size is not None for size in (self.kv_lora_rank, self.qk_nope_head_dim, self.qk_rope_head_dim))

    def layer_kinds(self) -> list[str]:
        """The kinds of attention of its layers, each once, by the names of `layer_types`."""
        if self.layer_types is not None:
            return sorted(set(self.layer_types))
        if self.attention_chunk_size is not None or self.global_attn_every_n_layers is not None:
            return [_FULL, _SLIDING]
        if self.sliding_window is None or self.use_sliding_window is False:
            return [_FULL]
        if self.sliding_window_pattern is not None or (self.model_type or "").startswith("gemma"):
            return [_FULL, _SLIDING]
        full_layers = (self.max_window_layers or 0) if self.use_sliding_window else 0
        if full_layers == 0:
            return [_SLIDING]
        is_none_left = self.num_hidden_layers is not None and full_layers >= self.num_hidden_layers
        return [_FULL] if is_none_left else [_FULL, _SLIDING]


def model_fields(path: Path, stated: Collection[str]) -> dict[str, int]:
    """`heads`, `kv_heads`, `head_dim`, `head_dim_v` and `window` of the model, as far as the file says.

    What the scenario has `stated` itself is neither read nor checked. Raises ScenarioError with every problem.
    """
    config = _read(path)
    readers: dict[str, Callable[[ModelConfig], int | None]] = {
        "heads": _heads,
        "kv_heads": _kv_heads,
        "head_dim": _head_dim,
        "head_dim_v": _head_dim_v,
        "window": _window,
    }
    fields: dict[str, int] = {}
    problems: list[str] = []
    for field in (name for name in readers if name not in stated):
        try:
            value = readers[field](config)
        except _UnclearError as error:
            problems.append(f"{error}, or state {field} in the workload")
        else:
            if value is not None:
                fields[field] = value
    if problems:
        raise ScenarioError(str(path), problems)
    return fields


class _UnclearError(Exception):
    """The file does not say what one field is: why, and how to mend the file."""


def _read(path: Path) -> ModelConfig:
    try:
        content = json.loads(read_text(path, ScenarioError))
    except json.JSONDecodeError as error:
        raise ScenarioError(str(path), [f"line {error.lineno}: not valid JSON; name a model's config.json"]) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists in lists without end
        raise ScenarioError(str(path), ["not readable as JSON; name a model's config.json"]) from None
    if isinstance(content, Mapping) and isinstance(content.get("text_config"), Mapping):
        content = content["text_config"]
    if not isinstance(content, Mapping):
        raise ScenarioError(str(path), ["not a mapping of keys; name a model's config.json"])
    try:
        return ModelConfig.model_validate(content)
    except ValidationError as error:
        raise ScenarioError(str(path), problems_from(error, ModelConfig)) from None


def _heads(config: ModelConfig) -> int:
    if config.heads is None:
        raise _UnclearError("num_attention_heads: missing, and n_head too; add one")
    return config.heads


def _kv_heads(config: ModelConfig) -> int | None:
    stated = config.num_key_value_heads
    if config.is_mla:
        if stated not in (None, config.heads):
            raise _UnclearError(
                f"num_key_value_heads: got {stated}, but the latent of multi-head latent attention (kv_lora_rank, "
                f"qk_nope_head_dim, qk_rope_head_dim) expands to all {config.heads} heads; correct it"
            )
        return config.heads
    if config.multi_query and not config.new_decoder_architecture:
        return 1
    return stated or config.num_kv_heads


def _head_dim(config: ModelConfig) -> int:
    if config.is_mla:  # such a file's head_dim is its RoPE part alone
        return _stated(config, "qk_nope_head_dim") + _stated(config, "qk_rope_head_dim")
    if config.head_dim is not None:
        return config.head_dim
    hidden_size = config.hidden_size or config.n_embd
    if hidden_size is None or config.heads is None:
        raise _UnclearError("head_dim: missing, and what it follows from, hidden_size and num_attention_heads; add it")
    if hidden_size % config.heads:
        raise _UnclearError(
            f"hidden_size: got {hidden_size}, not a multiple of num_attention_heads = {config.heads} "
            f"({hidden_size / config.heads:g} columns a head); correct one of them, add head_dim"
        )
    return hidden_size // config.heads


def _head_dim_v(config: ModelConfig) -> int | None:
    return _stated(config, "v_head_dim") if config.is_mla else config.v_head_dim


def _stated(config: ModelConfig, key: str) -> int:
    size: int | None = getattr(config, key)
    if size is None:
        raise _UnclearError(f"{key}: missing beside other sizes of multi-head latent attention; add it")
    return size


def _window(config: ModelConfig) -> int | None:
    kinds = config.layer_kinds()
    if kinds in ([], [_FULL]):
        return None
    if kinds == [_SLIDING] and config.sliding_window is not None:
        return config.sliding_window
    raise _UnclearError(
        f"sliding_window: got {config.sliding_window or 'null'}, but layers have {' and '.join(kinds)}, and a workload "
        "is one layer; keep one kind"
    )
