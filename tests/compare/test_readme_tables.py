"""The tables of validation/README.md: attention, single kernels and counters apart, each with its own rows."""

from pathlib import Path

import pytest

from gpusim.compare import compare

ROOT = Path(__file__).parents[2]
ATTENTION = "gpu,kernel,pass,batch,heads,seqlen_q,seqlen_k,head_dim,latency_ms,memory_mb,note"
KERNEL = "gpu,clock_mhz,data_kb,latency_ns"


def test_each_kind_of_row_has_its_heading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the FlashAttention-1 paper, its memory, and a chase; files by names that the trust list counts."""
    monkeypatch.syspath_prepend(ROOT)  # validation is no part of the package
    from validation.__main__ import tables

    texts = {
        "fa1_paper_a100_fwd.csv": f"{ATTENTION}\nA100-40GB,flash1,fwd,1,8,512,512,64,0.2,,",
        "fa1_paper_a100_memory.csv": f"{ATTENTION}\nA100-40GB,pytorch_naive,fwd_bwd,1,1,1024,1024,64,,9.25,",
        "gpu_benches_latency.csv": f"{KERNEL}\nA100-40GB,1410,512,150",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n")
    lines = list(tables(compare([tmp_path / name for name in texts], workers=1)))
    assert "3 rows, 3 simulated, 0 skipped." == lines[0]
    parts = "\n".join(lines).split("### ")[1:]
    assert ["Attention", "Single kernels", "Counters"] == [part.partition("\n")[0] for part in parts]
    assert "| fa1_paper_a100_fwd | a100_sxm4_40gb | flash1 | 64 | held out | 1 |" in parts[0]
    assert "| gpu_benches_latency | a100_sxm4_40gb | pointer_chase |  | fitted | 1 |" in parts[1]
    assert (
        "| fa1_paper_a100_memory | a100_sxm4_40gb | pytorch_naive | 64 | memory_mb | 1 | 0.0 % | +0.0 % | 0.0 % |"
        in parts[2]
    )
    assert ["| all |"] * 2 == [line[:7] for part in parts for line in part.splitlines() if line.startswith("| all")]
