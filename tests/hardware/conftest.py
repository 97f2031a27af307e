"""Tests of hardware run on lists, as SimPy does, and on arrays, as compiled code does: the answers are equal."""

import pytest

from gpusim.hardware import repeated_in_array, repeated_in_list
from gpusim.hardware.state import Repeated


@pytest.fixture(params=[repeated_in_list, repeated_in_array], ids=["list", "array"])
def repeated(request: pytest.FixtureRequest) -> Repeated:
    """What makes the sequences of a machine's state."""
    return request.param
