"""The committed tables: nothing lost on reading, and one verdict for every row."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from gpusim.datafiles import trust_list
from gpusim.errors import MeasuredError
from gpusim.measured import NOT_LISTED, OTHER_FILE, MeasuredRow, find_measured, measured_names, read_measured, verdict
from gpusim.measured.trust import read_trust_list


def rows_of(name: str) -> tuple[MeasuredRow, ...]:
    """All rows of a shipped table."""
    return read_measured(find_measured(name)).rows


@pytest.mark.parametrize("name", measured_names())
def test_each_data_line_is_exactly_one_row_or_one_skip(name: str) -> None:
    """Rows are conserved, and each carries the line its record starts on."""
    path = find_measured(name)
    with path.open(encoding="utf-8", newline="") as lines:
        records = sum(1 for _ in csv.reader(lines)) - 1
    file = read_measured(path)
    assert sorted([row.line for row in file.rows] + [skip.line for skip in file.skipped]) == list(range(2, records + 2))


@pytest.mark.parametrize("name", measured_names())
def test_the_committed_tables_are_read_without_a_skip(name: str) -> None:
    """What we ship, we can read."""
    assert read_measured(find_measured(name)).skipped == ()


def test_all_sequence_lengths_of_the_fa1_forward_table_are_read() -> None:
    """Table 18 (no dropout, no mask) gives flash1 from N = 128 to 64k, and PyTorch until memory ends."""
    plain = [row for row in rows_of("fa1_paper_a100_fwd") if not row.workload.dropout and row.workload.mask == "none"]
    by_kernel = {
        kernel: [row.workload.seqlen_q for row in plain if row.kernel == kernel]
        for kernel in ("flash1", "pytorch_naive")
    }
    assert by_kernel["flash1"] == [128 << i for i in range(10)]
    assert by_kernel["pytorch_naive"] == [128 << i for i in range(7)]


def test_a_known_point_of_the_fa1_forward_table() -> None:
    """PyTorch at N = 1,024 takes 1.27 ms on the 40 GB card, under the paper's own stack."""
    (row,) = (
        row
        for row in rows_of("fa1_paper_a100_fwd")
        if row.kernel == "pytorch_naive"
        and (row.workload.seqlen_q, row.workload.dropout, row.workload.mask) == (1024, 0.0, "none")
    )
    assert (row.latency_ms, row.gpu, row.conditions.stack) == (1.27, "a100_sxm4_40gb", "fa1_paper")
    assert (row.workload.batch, row.workload.heads, row.workload.head_dim) == (16, 8, 64)


def test_the_memory_table_holds_counters_without_latency() -> None:
    """Footprints are compared as memory, in MiB."""
    first = rows_of("fa1_paper_a100_memory")[0]
    assert (first.latency_ms, first.counters) == (None, {"memory_mb": 36.0})


def test_every_shipped_row_has_a_rule() -> None:
    """No row of a committed table falls through the trust list."""
    open_rows = [
        (name, row.line)
        for name in measured_names()
        for row in rows_of(name)
        if verdict(row).reason in (NOT_LISTED, OTHER_FILE)
    ]
    assert open_rows == []


def test_every_trust_rule_decides_a_row() -> None:
    """A rule that no row reaches is a slip in its selectors."""
    rules = read_trust_list(trust_list())
    rows = [row for name in measured_names() for row in rows_of(name)]
    deciding = {next(index for index, rule in enumerate(rules) if rule.fits(row)) for row in rows}
    assert deciding == set(range(len(rules)))


@pytest.mark.parametrize(
    ("name", "kernel", "counted"),
    [
        # Four tables (dropout x mask): PyTorch keeps N >= 512, flash1 what takes 0.15 ms or more (N >= 512).
        ("fa1_paper_a100_fwd", "pytorch_naive", 26 - 4 * 2),
        ("fa1_paper_a100_fwd", "flash1", 40 - 4 * 2),
        ("fa1_paper_a100_fwd", "flash1_block_sparse", 0),
        # Three tables of N = 512, 1,024 and 2,048; dropout with mask is out.
        ("fa1_paper_a100_fwd", "megatron_fused_softmax", 3 * 3),
        # 24 labels less the three under the legend.
        ("fa2_paper_a100_fwd_bwd", "flash2", 21),
        ("fa3_h100_fp16_fwd", "flash3", 23),
        ("fa3_h100_fp16_fwd", "pytorch_naive", 20),
    ],
)
def test_rows_that_count(name: str, kernel: str, counted: int) -> None:
    """The published rows that an error figure is made of, counted by hand."""
    assert sum(verdict(row).counts for row in rows_of(name) if row.kernel == kernel) == counted


@pytest.mark.parametrize(
    ("gpu", "m", "n", "k", "counts"),
    [
        ("h100_sxm5_80gb", 8192, 4096, 8192, False),
        ("h100_sxm5_80gb", 2048, 8192, 16384, False),
        ("h100_sxm5_80gb", 8192, 16384, 16384, False),
        ("a100_sxm4_80gb", 8192, 4096, 8192, True),
        ("h100_sxm5_80gb", 8192, 8192, 8192, True),
        ("h100_sxm5_80gb", 128, 4096, 4096, False),
        ("a100_sxm4_80gb", 512, 64, 64, True),
    ],
)
def test_gemm_outliers_and_few_rows_do_not_count(gpu: str, m: int, n: int, k: int, counts: bool) -> None:
    """Three H100 shapes reach a fraction of their neighbours' rate; M below 256 takes kernels without a model."""
    (row,) = (
        row
        for row in rows_of("aiconfigurator_a100_h100_gemm_bf16")
        if (row.gpu, row.workload.m, row.workload.n, row.workload.k) == (gpu, m, n, k)
    )
    assert counts == verdict(row).counts


def test_softmax_rows_that_count_have_a_power_of_two_of_columns() -> None:
    """Other widths leave vectors part empty. 27 rows on the 40 GB card, 13 of them with other widths; 25 and 8."""
    rows = [row for row in rows_of("neusight_fp32_bmm_softmax") if row.kernel == "torch_softmax"]
    counted = [row for row in rows if verdict(row).counts]
    assert all(row.workload.cols & (row.workload.cols - 1) == 0 for row in counted)
    assert {"a100_pcie_40gb": 27 - 13, "a100_pcie_80gb": 25 - 8} == Counter(row.gpu for row in counted)


def test_host_bound_rows_do_not_count() -> None:
    """The host's part of a call is 0.012 to 0.02 ms of a product or softmax, and 0.05 ms of a GELU."""
    for row in rows_of("llmcompass_a100_matmul_softmax"):
        assert verdict(row).counts == (row.latency_ms >= (0.2 if row.kernel == "torch_gelu" else 0.05)), row.line


def test_sets_that_a_larger_l1_holds_in_part_do_not_count() -> None:
    """An H100 has 256 KiB of it an SM, an A100 192."""
    left_out = [row for row in rows_of("gpu_benches_latency") if not verdict(row).counts]
    assert [("h100_pcie_80gb", 264 * 1024)] == [(row.gpu, row.workload.footprint_bytes) for row in left_out]


def test_unaligned_xformers_rows_do_not_count() -> None:
    """N = 82 and 197 take slow kernels that no model here stands for."""
    reasons = Counter(
        verdict(row).reason for row in rows_of("xformers_a100_fwd_2022-12") if row.workload.seqlen_q in (82, 197)
    )
    assert len(reasons) == 1
    assert "unaligned" in next(iter(reasons))


def test_rows_of_other_files_count(tmp_path: Path) -> None:
    """The list is about shipped tables; what users measured is theirs to judge."""
    path = tmp_path / "mine.csv"
    path.write_text(
        "gpu,kernel,pass,batch,heads,seqlen_q,seqlen_k,head_dim,latency_ms\nA100,flash2,fwd,1,8,512,512,64,1\n",
        encoding="utf-8",
    )
    judged = verdict(read_measured(path).rows[0])
    assert (judged.counts, judged.reason) == (True, "of a file that the trust list does not name")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f.csv,,,,,,,,,,,,maybe,why", "neither yes nor no"),
        ("f.csv,,,,,,,,,,,,no,", "reason is blank"),
        ("f.csv,,,,,,,>512,,,,,no,why", "seqlen = '>512' is no selector"),
        ("f.csv,,,,,,,,,,height=4,,no,why", "sizes = 'height=4' is no selector of"),
        ("f.csv,,,,,,,,,,m=,,no,why", "sizes = 'm=' is no selector of"),
        ("f.csv,,,,,,,,,,m=few,,no,why", "m = 'few' is no selector"),
    ],
)
def test_a_faulty_trust_rule_is_an_error_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    """A slip in the list must not change what counts."""
    header = trust_list().read_text(encoding="utf-8").splitlines()[0]
    path = tmp_path / "trust.csv"
    path.write_text(f"{header}\n{line}\n", encoding="utf-8")
    with pytest.raises(MeasuredError, match=f"line 2: .*{message}"):
        read_trust_list(path)
