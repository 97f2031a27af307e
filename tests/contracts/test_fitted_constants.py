"""Fitted constants stay few: with more, any data could be matched."""

from validation.constants import fitted_of_gpus, fitted_of_kernels

LIBRARY = "torch_kernels"


def test_a_gpu_has_at_most_eight_fitted_constants() -> None:
    """Bases included; what a microbenchmark measures directly is not fitted."""
    assert {} == {gpu: names for gpu, names in fitted_of_gpus().items() if len(names) > 8}


def test_a_library_kernel_has_at_most_four_fitted_constants() -> None:
    """On each architecture, those for all number formats and those for one together."""
    found = fitted_of_kernels()
    of_library = {owner: names for owner, names in found.items() if owner.startswith(LIBRARY)}
    assert of_library
    for owner, names in of_library.items():
        _, kernel, capability = owner.split(", ")
        base = found.get(f"{LIBRARY}, {kernel.partition('@')[0]}, {capability}", [])
        assert 4 >= len({*names, *base}), owner


def test_an_attention_kernel_has_at_most_six_fitted_constants() -> None:
    """Each version and architecture; those of eager attention are its library's."""
    attention = ("flash1", "flash2", "flash3", "triton")
    found = {owner: names for owner, names in fitted_of_kernels().items() if owner.split(", ")[0] in attention}
    assert set(attention) == {owner.split(", ")[0] for owner in found}
    assert {} == {owner: names for owner, names in found.items() if len(names) > 6}
