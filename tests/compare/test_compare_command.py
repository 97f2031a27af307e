"""`gpusim compare`: every row is simulated or skipped with its line and the reason, and nothing stops the rest."""

import json
import os
import sys
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.compare import compare

COLUMNS = "gpu,kernel,pass,dtype,batch,heads,kv_heads,seqlen_q,seqlen_k,head_dim,causal,dropout,mask,latency_ms,timing"
GOOD = "A100-80GB-SXM4,flash2,fwd,fp16,1,1,1,64,64,64,false,0,none,0.01,event"


def write(path: Path, *lines: str) -> Path:
    """A measured CSV; its first row stands on line 2."""
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")
    return path


def changed(old: str, new: str) -> str:
    """The good row with one cell changed."""
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`run("rows.csv", "--json")`: exit code, standard output and standard error of gpusim compare."""
    monkeypatch.chdir(tmp_path)

    def compare_command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpusim", "compare", *arguments, "--workers", "1"])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code, *capsys.readouterr()

    return compare_command


def test_rows_are_simulated_or_skipped_with_line_and_reason(tmp_path: Path) -> None:
    """Ten rows, two of them good; the reasons say what is wrong or what has no model."""
    bad = {
        "latency_ms = 'fast' is not a number": changed("0.01", "fast"),
        "batch": changed("fp16,1,1,1", "fp16,0,1,1"),
        "no_such_kernel": changed("flash2", "no_such_kernel"),
        "GTX 260": changed("A100-80GB-SXM4", "GTX 260"),
        "no model of flash1_triton yet": changed("flash2", "flash1_triton"),
        "no model yet for pass bwd": changed(",fwd,", ",bwd,"),
        "no model yet for a causal mask": changed("flash2", "flash1").replace("false", "true", 1),
        "no model yet for dropout 0.1": changed("false,0,", "false,0.1,"),
    }
    done = compare([write(tmp_path / "rows.csv", GOOD, *bad.values(), GOOD)], workers=1)
    assert (10, [2, 11]) == (done.rows, [item.row.line for item in done.compared])
    assert list(range(3, 11)) == [skip.line for skip in done.skipped]
    for reason, skip in zip(bad, done.skipped, strict=True):
        assert "rows.csv" == skip.file
        assert reason in skip.reason


def test_a_row_is_simulated_under_its_own_conditions(tmp_path: Path) -> None:
    """GPU, shape, timing and clock are the row's."""
    text = write(tmp_path / "rows.csv", GOOD.replace("64,64,64", "96,32,64")).read_text()
    header, row = text.splitlines()
    (tmp_path / "rows.csv").write_text(f"{header},sm_clock_mhz\n{row.replace('event', 'graph')},1005\n")
    (item,) = compare([tmp_path / "rows.csv"], workers=1).compared
    result = item.result
    assert ("a100_sxm4_80gb", 96, 32, "graph", 1005) == (
        result.gpu,
        result.seqlen_q,
        result.seqlen_k,
        result.timing,
        result.sm_clock_mhz,
    )


def test_every_assumption_is_counted(tmp_path: Path) -> None:
    """Blank cells of two rows, an unsized A100 in one of them."""
    blank = "A100,flash2,fwd,,1,1,,64,64,64,,,,0.01,"
    done = compare([write(tmp_path / "rows.csv", GOOD, blank, blank.replace("A100", "A100-80GB-SXM4"))], workers=1)
    assert 3 == len(done.compared)
    for field in ("dtype", "kv_heads", "causal", "dropout", "mask", "timing"):
        assert 2 == done.assumed[field], field
    assert 1 == done.assumed["gpu"]
    assert 3 == done.assumed["cache"]
    assert 3 == done.assumed["sm_clock_mhz"]


def test_an_unreadable_file_does_not_stop_the_others(run, tmp_path: Path) -> None:
    """It is named, and the other file's row counts."""
    write(tmp_path / "rows.csv", GOOD)
    code, out, _ = run("nosuch.csv", "rows.csv", "--json")
    document = json.loads(out)
    assert (0, 1, 1) == (code, document["rows"], document["simulated"])
    assert ["nosuch.csv: no such file; check the path, or give the bare name of a shipped table"] == document[
        "unreadable"
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\x7fELF\0\0\0", "binary data"),
        (b"a,b,c\n1,2,3\n", "names no column we know"),
        (b"gpu;kernel;latency_ms\n", "separated by semicolons"),
    ],
)
def test_no_readable_file_exits_2(run, tmp_path: Path, content: bytes, said: str) -> None:
    """One line with the file and the reason, and no folder."""
    (tmp_path / "rows.csv").write_bytes(content)
    code, out, err = run("rows.csv")
    assert (2, "", 1) == (code, out, len(err.splitlines()))
    assert err.startswith("error: ")
    assert "rows.csv: " in err
    assert said in err
    assert ["rows.csv"] == os.listdir(tmp_path)


def test_no_simulated_row_exits_3(run, tmp_path: Path) -> None:
    """Skipped rows never count as a success."""
    write(tmp_path / "rows.csv", changed(",fwd,", ",bwd,"))
    code, out, _ = run("rows.csv", "--json")
    assert (3, 0, None) == (code, json.loads(out)["simulated"], json.loads(out)["mape_pct"])


@pytest.mark.parametrize(("bar", "code"), [("1e6", 0), ("0", 1)])
def test_a_missed_bar_exits_1(run, tmp_path: Path, bar: str, code: int) -> None:
    """With the bar and what was reached; a bar that is met says nothing."""
    write(tmp_path / "rows.csv", GOOD)
    ended, _, err = run("rows.csv", "--max-mape", bar, "--quiet")
    assert code == ended
    assert (code == 1) == err.startswith(f"error: --max-mape {bar}: the mean absolute error is ")


def test_a_bar_without_a_row_is_missed(run, tmp_path: Path) -> None:
    """Nothing was shown to be below it."""
    write(tmp_path / "rows.csv", changed(",fwd,", ",bwd,"))
    code, _, err = run("rows.csv", "--max-mape", "50")
    assert 1 == code
    assert "no row was simulated" in err


# 4 × 64 × 64 × 64 FLOPs in 1 ns are 1,049 TFLOP/s; the A100's peak is 312.
SUSPECT = changed("0.01", "0.000001")


def test_a_suspect_row_stands_in_no_figure(run, tmp_path: Path) -> None:
    """Total, series, bar and what is printed are those of the other row; the suspect is listed and still a point."""
    write(tmp_path / "rows.csv", GOOD)
    alone = json.loads(run("rows.csv", "--json")[1])
    write(tmp_path / "rows.csv", GOOD, SUSPECT)
    bar = str(alone["mape_pct"] + 1)
    code, out, err = run("rows.csv", "--json", "--max-mape", bar)
    document = json.loads(out)
    assert (0, "") == (code, err)
    for name in ("mape_pct", "max_ape_pct", "bias_pct", "trusted", "series"):
        assert alone[name] == document[name], name
    assert ([3], [False, True]) == (
        [suspect["line"] for suspect in document["suspects"]],
        [point["above_ceiling"] for point in document["points"]],
    )
    page = run("rows.csv")[1]
    assert "suspect: rows.csv, line 3: " in page
    assert "all simulated rows but 1 suspect: n 1, " in page


def test_suspect_rows_alone_miss_a_bar(run, tmp_path: Path) -> None:
    """They were simulated, and show nothing."""
    write(tmp_path / "rows.csv", SUSPECT)
    code, _, err = run("rows.csv", "--max-mape", "1e9", "--quiet")
    assert (1, "error: --max-mape 1e+09: no simulated row counts\n") == (code, err)


def test_rows_of_ones_own_file_count(run, tmp_path: Path) -> None:
    """The trust list is about shipped tables, where it leaves out eager PyTorch below N = 512."""
    write(tmp_path / "rows.csv", GOOD)
    assert "trust list" not in run("rows.csv")[1]
    document = json.loads(run("rows.csv", "--json")[1])
    assert (1, document["mape_pct"]) == (document["trusted"]["n"], document["trusted"]["mape_pct"])
    write(tmp_path / "fa1_paper_a100_fwd.csv", changed("flash2", "pytorch_naive"))
    page = " ".join(run("rows.csv", "fa1_paper_a100_fwd.csv")[1].split())
    assert "all simulated rows: n 2, " in page
    assert "rows the trust list counts, and all of rows.csv: n 1, " in page


def test_a_kernel_without_a_model_is_told_what_there_is(tmp_path: Path) -> None:
    """The nearest names, or all that compute the same."""
    rows = write(tmp_path / "rows.csv", changed("flash2", "flash5"), changed("flash2", "cutlass_fmha"))
    near, far = compare([rows], workers=1).skipped
    assert near.reason.startswith("no model of flash5 yet; the nearest known names are flash")
    assert "no model of cutlass_fmha yet; known are naive, pytorch_naive, " in far.reason
    assert "torch_matmul" not in far.reason


def test_only_rows_of_the_gpus_asked_for(run, tmp_path: Path) -> None:
    """A file that starts from the preset stands in for it; other rows are skipped and say so."""
    write(tmp_path / "rows.csv", GOOD, changed("A100-80GB-SXM4", "H100-80GB-SXM5"))
    (tmp_path / "mine.yaml").write_text("base: a100_sxm4_80gb\nname: mine\n")
    document = json.loads(run("rows.csv", "--gpu", "mine.yaml", "--json")[1])
    assert ["mine"] == [point["gpu"] for point in document["points"]]
    assert [3] == [skip["line"] for skip in document["skipped"]]
    assert "not among the GPUs asked for" in document["skipped"][0]["reason"]


def test_a_field_that_some_gpus_lack_can_be_set(run, tmp_path: Path) -> None:
    """Canvas has no L2, and no row of this file is about canvas."""
    write(tmp_path / "rows.csv", GOOD)
    code, _, err = run("rows.csv", "--set", "memory.l2.size_bytes=20971520", "--quiet")
    assert (0, "") == (code, err)


def test_a_comparison_leaves_whole_files_and_repeats_them(run, tmp_path: Path) -> None:
    """Everything but the manifest is byte-identical."""
    write(tmp_path / "rows.csv", GOOD, changed("0.01", "fast"))
    for _ in range(2):
        run("rows.csv", "--quiet")
    first, again = (tmp_path / "runs" / f"compare-{number}" for number in (1, 2))
    names = {"report.html", "compare.json", "results.csv", "errors.png", "manifest.json"}
    assert names == set(os.listdir(first)) == set(os.listdir(again))
    for name in names - {"manifest.json"}:
        assert (first / name).read_bytes() == (again / name).read_bytes(), name


MEMORY = "gpu,kernel,pass,batch,heads,seqlen_q,seqlen_k,head_dim,memory_mb,latency_ms"


def test_memory_of_a_training_step_is_checked_without_simulation(tmp_path: Path) -> None:
    """One head, N = 1,024, d = 64, fp16: P, dP, grad·P and dS are 2 MiB each, ten buffers 128 KiB: 9.25 MiB."""
    rows = tmp_path / "rows.csv"
    eager = "A100-40GB,pytorch_naive,fwd_bwd,1,1,1024,1024,64"
    rows.write_text(f"{MEMORY}\n{eager},8,\n{eager},8,1.5\n{eager.replace('pytorch_naive', 'flash2')},8,\n")
    done = compare([rows], workers=1)
    (item,) = done.compared
    assert {"memory_mb": {"measured": 8.0, "simulated": 9.25, "error": 0.15625}} == item.checks()
    assert (None, "unsupported", None) == (item.error, item.result.status, item.result.latency_ms)
    assert (3, 1, [3, 4]) == (done.rows, done.counters_only, [skip.line for skip in done.skipped])
    assert [] == done.series()


def test_counter_checks_are_printed_and_in_the_document(run, tmp_path: Path) -> None:
    """Beside the errors of latencies; a row that was only checked is an answer, so the command succeeds."""
    line = "A100-40GB,pytorch_naive,fwd_bwd,1,1,1024,1024,64,8,"
    (tmp_path / "rows.csv").write_text(f"{MEMORY}\n{line}\n")
    code, page, _ = run("rows.csv")
    assert 0 == code
    assert "1 rows: 1 simulated (1 of these by a counter alone), 0 skipped" in page
    assert "memory_mb" in page
    assert "15.6" in page
    (check,) = json.loads(run("rows.csv", "--json")[1])["checks"]
    assert ("memory_mb", 1, 15.625) == (check["metric"], check["n"], check["mape_pct"])


def test_rows_about_single_kernels_are_simulated(tmp_path: Path) -> None:
    """A small product, a softmax, a small kernel and a chase of one A100; fields of attention are null."""
    tables = {
        "gemm.csv": "gpu,kernel,dtype,M,N,K,tflops\nA100,torch_matmul,bf16,256,256,256,5",
        "softmax.csv": "gpu,kernel,dtype,rows,cols,gb_per_s\nA100,torch_softmax,fp32,512,1024,500",
        "small.csv": "gpu,mode,elements,us_per_kernel\nA100,cuda graph,4096,1.3",
        "chase.csv": "gpu,data_kb,latency_ns\nA100,512,150",
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(f"{text}\n")
    done = compare([tmp_path / name for name in tables], workers=1)
    assert () == done.skipped
    assert ["torch_matmul", "torch_softmax", "small_kernels (cuda graph)", "pointer_chase"] == [
        series.key.kernel for series in done.series()
    ]
    for item in done.compared:
        record = item.result.record()
        assert ("ok", None, None) == (record["status"], record["seqlen_q"], record["causal"])
        assert item.error is not None


def is_first_light(row: dict[str, str]) -> bool:
    """The rows of the FlashAttention-1 paper that the bar is about."""
    return (
        row["kernel"] in ("pytorch_naive", "flash1")
        and (row["pass"], float(row["dropout"]), row["mask"], row["causal"]) == ("fwd", 0.0, "none", "false")
        and 1024 <= int(row["seqlen_q"]) <= 8192
    )


def test_first_light_accuracy(subset, tmp_path: Path) -> None:
    """FA-1 paper, A100-40, forward, no mask or dropout, N = 1k to 8k: mean |error| at most 25 % for both kernels."""
    done = compare([subset("fa1_paper_a100_fwd", is_first_light, tmp_path)], workers=2)
    assert () == done.skipped
    mape_pct = {series.key[2]: series.every.mape_pct for series in done.series()}
    assert {"pytorch_naive", "flash1"} == set(mape_pct)
    assert all(error_pct <= 25 for error_pct in mape_pct.values()), mape_pct
