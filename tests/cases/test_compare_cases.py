"""Public cases about measured tables, named after their number in the case list."""

import json
import sys
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.compare import compare

COLUMNS = "gpu,kernel,pass,dtype,batch,heads,seqlen_q,seqlen_k,head_dim,causal,tflops,latency_ms"
# Dao-AILab/flash-attention#477; the benchmark's 2,048 hidden numbers are 128 heads of 16. The card's peak is 165.
C10 = (
    "RTX 4090,pytorch_naive,fwd,fp16,16,128,1024,1024,16,false,475.19,",
    "RTX 4090,flash1,fwd,fp16,64,32,256,256,64,false,222.97,",
    "RTX 4090,xformers,fwd,fp16,16,,1024,1024,16,false,524,",
    "RTX 4090,pytorch_naive,fwd,fp16,16,128,1024,1024,16,false,60,",
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The rows as a measured CSV."""
    path = tmp_path / "thread_477.csv"
    path.write_text("\n".join([COLUMNS, *C10]) + "\n")
    return path


def test_C10_a_rate_above_the_peak_is_marked_though_the_gpu_is_not_simulated(table: Path) -> None:
    """Three rows claim more than the card can do, one of them without its heads; a plausible one is left alone."""
    done = compare([table], workers=1)
    assert [2, 3, 4, 5] == [skip.line for skip in done.skipped]
    assert [2, 3, 4] == [suspect.line for suspect in done.suspects]
    assert all("peak of rtx_4090" in suspect.reason for suspect in done.suspects)


def test_C10_the_page_and_the_document_say_so(
    table: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line each on the page; file, line and reason in the JSON."""
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["gpusim", "compare", str(table), "--workers", "1", *options])
        with pytest.raises(SystemExit):
            main()
    page, _, document = capsys.readouterr().out.partition("{")
    assert 3 == page.count("suspect: thread_477.csv, line ")
    assert {"thread_477.csv"} == {suspect["file"] for suspect in json.loads("{" + document)["suspects"]}


def test_C10_a_marked_row_does_not_count(tmp_path: Path) -> None:
    """The same claim on a GPU that is simulated, from a file that the trust list counts: 475 TFLOP/s on an A100."""
    path = tmp_path / "fa1_paper_a100_fwd.csv"
    path.write_text(f"{COLUMNS}\nA100-40GB,flash1,fwd,fp16,16,8,4096,4096,64,false,475.19,\n")
    (item,) = compare([path], workers=1).compared
    assert not item.is_trusted
    assert item.above_ceiling is not None
    assert item.above_ceiling in item.trust_reason
