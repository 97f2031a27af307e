"""A measured CSV is read generously: a data line becomes one row or one reasoned skip."""

from pathlib import Path

import pytest

from gpusim.dtypes import DType
from gpusim.errors import MeasuredError, UnknownNameError
from gpusim.measured import MeasuredFile, MeasuredRow, find_measured, measured_names, read_all, read_measured
from gpusim.measured.ceiling import Claim
from gpusim.workloads import AttentionWorkload, GemmWorkload

FULL = {
    "source": "test bench",
    "gpu": "A100-SXM4-40GB",
    "kernel": "flash2",
    "version": "2.0",
    "pass": "fwd",
    "dtype": "fp16",
    "batch": "2",
    "heads": "4",
    "kv_heads": "4",
    "seqlen_q": "1000",
    "seqlen_k": "500",
    "head_dim": "64",
    "causal": "false",
    "dropout": "0",
    "mask": "none",
    "latency_ms": "1.5",
    "sm_clock_mhz": "1410",
    "timing": "graph",
    "cache": "cold",
}


def write(folder: Path, *rows: dict[str, str], name: str = "t.csv") -> Path:
    """Writes rows as a measured CSV and returns its path."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [",".join(columns)]
    lines += [",".join('"' + row.get(column, "").replace('"', '""') + '"' for column in columns) for row in rows]
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(folder: Path, **changes: str) -> MeasuredFile:
    """A file with one full row, some cells changed, read back."""
    return read_measured(write(folder, FULL | changes))


def only_row(folder: Path, **changes: str) -> MeasuredRow:
    """The row that the changed cells give; nothing was skipped."""
    file = read(folder, **changes)
    assert not file.skipped
    return file.rows[0]


def only_reason(folder: Path, **changes: str) -> str:
    """Why the changed cells give no row."""
    file = read(folder, **changes)
    assert not file.rows
    return file.skipped[0].reason


def test_a_full_row_needs_no_assumption(tmp_path: Path) -> None:
    """What the source states is taken over as it stands."""
    file = read(tmp_path)
    row = file.rows[0]
    assert file.assumed == {}
    assert (row.file, row.line, row.gpu, row.implementation, row.version) == (
        "t.csv", 2, "a100_sxm4_40gb", "flash2", "2.0",
    )  # fmt: skip
    assert (row.workload.seqlen_q, row.workload.seqlen_k, row.workload.dtype) == (1000, 500, DType.FP16)
    assert (row.conditions.timing, row.conditions.cache, row.conditions.sm_clock_mhz) == ("graph", "cold", 1410.0)
    assert row.latency_ms == 1.5


def test_blanks_are_filled_as_stated_and_counted(tmp_path: Path) -> None:
    """Each blank that has a stated default is one assumption of that field."""
    blanks = ("version", "pass", "dtype", "kv_heads", "causal", "dropout", "mask", "sm_clock_mhz", "timing", "cache")
    file = read_measured(write(tmp_path, FULL | dict.fromkeys(blanks, ""), FULL))
    row = file.rows[0]
    assert file.assumed == dict.fromkeys(sorted(blanks), 1)
    assert (row.version, row.workload.dtype, row.workload.kv_heads, row.workload.causal) == (None, DType.FP16, 4, False)
    assert row.workload.pass_ == "fwd"
    assert (row.workload.dropout, row.workload.mask) == (0.0, "none")
    assert (row.conditions.sm_clock_mhz, row.conditions.timing, row.conditions.cache) == (None, "event", "warm")


def test_missing_columns_are_filled_like_blanks(tmp_path: Path) -> None:
    """A file with only the needed columns is read."""
    needed = ("gpu", "kernel", "batch", "heads", "seqlen_q", "seqlen_k", "head_dim", "latency_ms")
    file = read_measured(write(tmp_path, {column: FULL[column] for column in needed}))
    assert len(file.rows) == 1
    assert file.assumed["timing"] == file.assumed["kv_heads"] == file.assumed["pass"] == 1


def test_seqlen_stands_for_both_lengths(tmp_path: Path) -> None:
    """One column for rows of Q and of K and V, as in a scenario; one that agrees may stand beside it."""
    lengths = [{"seqlen": "1000", "seqlen_q": q, "seqlen_k": k} for q, k in (("", ""), ("1000", ""), ("1000", "1000"))]
    workloads = [row.workload for row in read_measured(write(tmp_path, *(FULL | cells for cells in lengths))).rows]
    assert [(1000, 1000)] * 3 == [(workload.seqlen_q, workload.seqlen_k) for workload in workloads]


def test_seqlen_must_not_contradict_a_length(tmp_path: Path) -> None:
    """Two lengths for the same rows say two things; a word that is no number is told as such."""
    assert "seqlen_k = '500' contradicts seqlen = 1000" == only_reason(tmp_path, seqlen="1000")
    assert "seqlen = '1k' is not a number" == only_reason(tmp_path, seqlen="1k", seqlen_q="", seqlen_k="")


def test_assumptions_of_skipped_rows_are_not_counted(tmp_path: Path) -> None:
    """A row that is not used assumes nothing."""
    assert read(tmp_path, dropout="", batch="none").assumed == {}


@pytest.mark.parametrize(
    ("changes", "latency_ms"),
    [
        # 4 * 2 * 4 * 1000 * 500 * 64 = 1.024e9 FLOPs; at 1.024 TFLOP/s that is 1 ms.
        ({}, 1.0),
        ({"causal": "true"}, 0.5),
        ({"pass": "bwd"}, 2.5),
        ({"pass": "fwd_bwd"}, 3.5),
    ],
)
def test_latency_follows_from_tflops(tmp_path: Path, changes: dict[str, str], latency_ms: float) -> None:
    """The FLOP convention of the published benchmarks turns TFLOP/s into ms."""
    row = only_row(tmp_path, latency_ms="", tflops="1.024", **changes)
    assert row.latency_ms == pytest.approx(latency_ms, rel=1e-12)


def test_a_printed_latency_wins_over_tflops(tmp_path: Path) -> None:
    """Where both are given, latency is the measurement."""
    assert only_row(tmp_path, tflops="99").latency_ms == 1.5


def test_a_row_may_hold_counters_alone(tmp_path: Path) -> None:
    """A counter is enough to be a measurement; latency is then unknown."""
    row = only_row(tmp_path, latency_ms="", dram_bytes="405440", l2_hit_rate_pct="75.82", memory_mb="36")
    assert row.latency_ms is None
    assert row.counters == {"dram_bytes": 405440.0, "l2_hit_rate_pct": 75.82, "memory_mb": 36.0}


def test_stack_and_host_floor_columns_reach_the_conditions(tmp_path: Path) -> None:
    """A stated stack beats the one that the source's text implies."""
    row = only_row(tmp_path, source="arXiv 2205.14135", stack="my_stack", host_floor_ms="0.2")
    assert (row.conditions.stack, row.conditions.host_floor_ms) == ("my_stack", 0.2)


def test_extra_columns_are_kept_and_named_once(tmp_path: Path) -> None:
    """An unknown column is named for the file, and its cells stay with their rows."""
    file = read_measured(write(tmp_path, FULL | {"power_w": "400"}, FULL | {"power_w": ""}))
    assert file.extra_columns == ("power_w",)
    assert [row.extra for row in file.rows] == [{"power_w": "400"}, {}]


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [("seqlen_q", "8448.0", 8448), ("batch", "1e3", 1000), ("head_dim_v", "128", 128), ("window", "256", 256)],
)
def test_whole_numbers_may_be_written_as_decimals(tmp_path: Path, column: str, cell: str, value: int) -> None:
    """A spreadsheet's 8448.0 is 8448."""
    assert getattr(only_row(tmp_path, **{column: cell}).workload, column) == value


@pytest.mark.parametrize("cell", ["TRUE", "True", "true", "1"])
def test_booleans_come_in_any_case(tmp_path: Path, cell: str) -> None:
    """Spreadsheets shout."""
    assert only_row(tmp_path, causal=cell).workload.causal


@pytest.mark.parametrize(
    ("mask", "causal", "expected"),
    [
        ("causal", "true", ("none", True)),
        ("causal", "", ("none", True)),
        ("causal bool NxN, full compute", "true", ("none", True)),
        ("padding", "false", ("padding", False)),
        ("none", "true", ("none", True)),
    ],
)
def test_a_causal_mask_is_the_causal_flag(tmp_path: Path, mask: str, causal: str, expected: tuple[str, bool]) -> None:
    """`mask` never says causal; the flag does, and both spellings of it agree."""
    workload = only_row(tmp_path, mask=mask, causal=causal).workload
    assert (workload.mask, workload.causal) == expected


def test_inferred_cells_are_used_and_counted(tmp_path: Path) -> None:
    """What the source itself inferred is an assumption of that field."""
    file = read(tmp_path, dtype="fp16 (inferred)", gpu="A100-80GB-SXM4 (inferred)", seqlen_q="64 (assumed, see note)")
    assert file.rows[0].workload.seqlen_q == 64
    assert file.assumed == {
        "dtype (inferred in source)": 1,
        "gpu (inferred in source)": 1,
        "seqlen_q (inferred in source)": 1,
    }


@pytest.mark.parametrize(
    ("column", "cell", "fault"),
    [
        ("latency_ms", "NaN", "not a finite number"),
        ("latency_ms", "inf", "not a finite number"),
        ("latency_ms", "-1", "not a finite number"),
        ("latency_ms", "0", "is zero"),
        ("latency_ms", "OOM", "is not a number"),
        ("tflops", "1,5", "is not a number"),
        ("tflops", "0.0", "is zero"),
        ("batch", "2.5", "is not a whole number"),
        ("heads", "0", "is not a whole number"),
        ("head_dim", "1e300", "is not a whole number"),
        ("seqlen_q", "8k", "is not a number"),
        ("dropout", "1.5", "dropout"),
        ("kv_heads", "3", "not a multiple of kv_heads = 3"),
        ("causal", "maybe", "neither true nor false"),
        ("pass", "forwards", "is not one of fwd, bwd, fwd_bwd"),
        ("mask", "alibi", "is not known"),
        ("timing", "stopwatch", "is not one of graph, event, ncu, host"),
        ("cache", "tepid", "is not one of warm, cold"),
        ("sm_clock_mhz", "0", "is zero"),
        ("host_floor_ms", "-2", "not a finite number"),
        ("l2_hit_rate_pct", "101", "at most 100"),
        ("dram_bytes", "many", "is not a number"),
        ("dtype", "int8", "is not known"),
        ("page_size", "16", "not modelled yet"),
        ("splits", "4", "not modelled yet"),
    ],
)
def test_a_bad_cell_skips_its_row_with_column_and_value(tmp_path: Path, column: str, cell: str, fault: str) -> None:
    """The skip names the column, shows the cell and says what is wrong with it."""
    file = read_measured(write(tmp_path, FULL | {column: cell}, FULL))
    (skip,) = file.skipped
    assert skip.line == 2
    assert fault in skip.reason
    assert column in skip.reason
    assert cell.split(".")[0] in skip.reason
    assert [row.line for row in file.rows] == [3]


@pytest.mark.parametrize("column", ["batch", "heads", "seqlen_q", "seqlen_k", "head_dim"])
def test_a_missing_cell_without_a_default_skips_its_row(tmp_path: Path, column: str) -> None:
    """The shape is never guessed."""
    assert f"{column} is missing" in only_reason(tmp_path, **{column: ""})


def test_all_faults_of_a_row_are_told_at_once(tmp_path: Path) -> None:
    """One reading is enough to mend a row."""
    reason = only_reason(tmp_path, batch="x", seqlen_k="", latency_ms="-3")
    assert "batch = 'x'" in reason
    assert "seqlen_k is missing" in reason
    assert "latency_ms = '-3'" in reason


def test_mask_and_causal_must_not_contradict(tmp_path: Path) -> None:
    """A causal mask with causal = false says two things."""
    assert "contradicts" in only_reason(tmp_path, mask="causal", causal="false")


def test_nothing_measured_is_a_skip(tmp_path: Path) -> None:
    """A row without latency, TFLOP/s and counters cannot be compared."""
    assert "nothing measured" in only_reason(tmp_path, latency_ms="")


def test_a_rate_next_to_zero_is_a_skip(tmp_path: Path) -> None:
    """The latency that follows from it must be finite."""
    assert "too small" in only_reason(tmp_path, latency_ms="", tflops="1e-320")


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """A quoted newline and a blank line count as lines, so an editor finds the row."""
    path = write(tmp_path, FULL | {"note": "two\nlines"}, FULL | {"note": "after"}, FULL | {"batch": "x"})
    text = path.read_text(encoding="utf-8").replace('"after"\n', '"after"\n\n')
    path.write_text(text, encoding="utf-8")
    file = read_measured(path)
    assert [row.line for row in file.rows] == [2, 4]
    assert file.rows[0].note == "two\nlines"
    assert [skip.line for skip in file.skipped] == [6]


def test_a_line_of_another_length_is_a_skip(tmp_path: Path) -> None:
    """A comma too many shifts cells, so nothing in the line is believed."""
    path = write(tmp_path, FULL)
    path.write_text(path.read_text(encoding="utf-8") + "a,b\n", encoding="utf-8")
    (skip,) = read_measured(path).skipped
    assert (skip.line, skip.reason) == (
        3, "the line has 2 cells and the header 19; quote cells with commas",
    )  # fmt: skip


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_byte_order_mark_and_foreign_line_ends_are_read(tmp_path: Path, line_end: bytes) -> None:
    """What Excel saves is read like any other file."""
    path = write(tmp_path, FULL, FULL)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", line_end))
    assert [row.line for row in read_measured(path).rows] == [2, 3]


def test_columns_may_be_in_any_case_and_order(tmp_path: Path) -> None:
    """The header's words count, not its looks; a column without a name is left alone."""
    row = {f" {column.upper()}": cell for column, cell in reversed(FULL.items())}
    assert len(read_measured(write(tmp_path, row | {"": ""})).rows) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\xef\xbb\xbf\n", "empty"),
        (b",,\n,,\n", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        ("gpu,kernel,latency_ms\nA100,flash2,1\n".encode("utf-16"), "binary"),
        (b"gpu,kernel,latency_ms\nA100,fl\xe4sh,1\n", "line 2 is not UTF-8"),
        (b"a,b,c\n1,2,3\n", "names no column we know"),
        (b"gpu;kernel;latency_ms\n", "semicolons"),
        (b"gpu\tkernel\tlatency_ms\n", "tabs"),
        (b"gpu,kernel,GPU,latency_ms\n", "column 'gpu' appears 2 times"),
        (b"kernel,latency_ms\nflash2,1\n", "no column 'gpu'"),
        (b"gpu,kernel,note\nA100,flash2,fast\n", "no measured column"),
        (b'gpu,kernel,latency_ms\nA100,"flash2,1\n', "line 2: not CSV"),
    ],
)
def test_an_unreadable_file_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    """The error names the file and what to do about it."""
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(MeasuredError, match=message) as caught:
        read_measured(path)
    assert caught.value.where == str(path)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    """The two commonest slips get their own words."""
    with pytest.raises(MeasuredError, match="no such file"):
        read_measured(tmp_path / "none.csv")
    with pytest.raises(MeasuredError, match="a folder"):
        read_measured(tmp_path)


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    """Files and errors come back side by side."""
    good = write(tmp_path, FULL)
    files, errors = read_all([tmp_path / "none.csv", good])
    assert [file.path for file in files] == [good]
    assert len(errors) == 1


def test_a_file_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    """Its rows would count twice; another spelling of its path is the same file."""
    path = write(tmp_path, FULL)
    again = tmp_path / "a" / ".." / path.name
    with pytest.raises(MeasuredError, match="given 2 times; keep one"):
        read_all([path, again])


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    """Rows carry the name of their file, or its path where the name is not enough."""
    (tmp_path / "a").mkdir()
    first, second = write(tmp_path, FULL), write(tmp_path / "a", FULL)
    files, _ = read_all([first, second])
    assert [file.rows[0].file for file in files] == [str(first), str(second)]


def test_a_bare_name_is_a_shipped_table() -> None:
    """Scenarios name measured tables without folder and ending."""
    assert find_measured("fa1_paper_a100_fwd").name == "fa1_paper_a100_fwd.csv"
    assert "fa1_paper_a100_fwd" in measured_names()


def test_a_path_is_a_path(tmp_path: Path) -> None:
    """Anything with a folder or an ending is taken as written."""
    assert find_measured(str(tmp_path / "mine.csv")) == tmp_path / "mine.csv"


def test_an_unknown_bare_name_lists_the_tables() -> None:
    """The message holds what could have been meant."""
    with pytest.raises(UnknownNameError, match="fa1_paper_a100_fwd"):
        find_measured("fa9_paper")


def test_a_mixed_file_is_read_row_by_row(tmp_path: Path) -> None:
    """GEMM and attention rows may share a file; each is judged by its own cells."""
    gemm = {"gpu": "A100", "kernel": "cublas", "M": "64", "N": "64", "K": "64", "tflops": "1"}
    file = read_measured(write(tmp_path, gemm, FULL))
    assert [GemmWorkload, AttentionWorkload] == [type(row.workload) for row in file.rows]


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"heads": ""}, Claim("a100_sxm4_40gb", DType.FP16, 475.0)),
        ({"heads": "", "dtype": ""}, Claim("a100_sxm4_40gb", DType.FP16, 475.0)),
        ({"dtype": "fp8"}, Claim("a100_sxm4_40gb", None, 475.0)),
        ({"gpu": "MI300X"}, None),
        ({"heads": "", "kernel": "flash1_block_sparse"}, None),
        ({"heads": "", "window": "128"}, None),
        ({"heads": "", "tflops": ""}, None),
        ({"heads": "", "tflops": "fast"}, None),
    ],
)
def test_a_skipped_row_still_claims_its_rate(tmp_path: Path, changes: dict[str, str], claim: Claim | None) -> None:
    """A rate on a known GPU can be held against its peak, whatever else the row lacks."""
    (skip,) = read(tmp_path, **{"latency_ms": "", "tflops": "475"} | changes).skipped
    assert claim == skip.claim
