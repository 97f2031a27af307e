"""CTA groups of a row softmax are a shortcut: single CTAs move the same bytes and take as long, to 3 %."""

import pytest

from gpusim.engine import simulate
from gpusim.implementations import parse_request, plan
from gpusim.specs import load_gpu
from gpusim.workloads import Conditions, RowsWorkload

A100 = load_gpu("a100_sxm4_80gb")
COLD = Conditions(timing="ncu", cache="cold")


@pytest.mark.parametrize(
    ("rows", "cols", "dtype", "grain"),
    [(131_072, 256, "fp16", 2), (131_072, 256, "fp32", 2), (32_768, 2048, "fp16", 2), (32_768, 2048, "fp32", 4)],
)
def test_groups_stand_for_single_ctas(rows: int, cols: int, dtype: str, grain: int) -> None:
    """Bound by the SM or by memory, read once or three times."""
    workload = RowsWorkload(rows=rows, cols=cols, dtype=dtype)
    grouped = plan(parse_request("torch_softmax", "test"), A100, workload)
    single = plan(parse_request({"name": "torch_softmax", "grain": 1}, "test"), A100, workload)
    assert (grain, 1) == (grouped.choices.grain, single.choices.grain)
    of_groups, of_ctas = (simulate(found.graph, A100, COLD) for found in (grouped, single))
    assert of_ctas.latency_ps == pytest.approx(of_groups.latency_ps, rel=0.03)
    (groups,), (ctas,) = of_groups.kernels, of_ctas.kernels
    assert (ctas.ctas, ctas.work.read_bytes, ctas.hbm_read_bytes) == (
        groups.ctas,
        groups.work.read_bytes,
        groups.hbm_read_bytes,
    )
