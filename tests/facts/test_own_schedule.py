"""A schedule written outside the package runs through every reader: the example in docs/own_schedule.py."""

import importlib.util
import random
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gpusim.analytic import footprint, kernel_work, lower_bound
from gpusim.engine import simulate
from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.specs import load_gpu
from gpusim.taskgraph import check_graph
from gpusim.units import ms_from_ps
from gpusim.workloads import AttentionWorkload, Conditions

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "own_schedule.py"
RAGGED = AttentionWorkload(batch=2, heads=2, seqlen_q=50, seqlen_k=37, head_dim=16)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script as a module, without running its main."""
    spec = importlib.util.spec_from_file_location("own_schedule", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_a_legal_graph(example: ModuleType) -> None:
    """The graph breaks no rule, so nothing is raised."""
    check_graph(example.resident_attention(example.WORKLOAD))


@pytest.mark.parametrize("seed", range(5))
def test_the_numeric_reader_gets_attention_in_any_order(example: ModuleType, seed: int) -> None:
    """Ragged Q tiles, N_q ≠ N_k, random legal orders: float64 attention to 1e-12."""
    graph, inputs = example.resident_attention(RAGGED, tile_q=16), inputs_for(RAGGED, seed)
    output = execute(graph, inputs, rng=random.Random(seed))["O"]
    np.testing.assert_allclose(output, attention_reference(*inputs.values()), rtol=0, atol=1e-12)


def test_the_analytic_reader_counts_compulsory_bytes(example: ModuleType) -> None:
    """Q, K, V read once and O written once, and no device memory beyond them."""
    graph = example.resident_attention(example.WORKLOAD)
    (work,) = (kernel_work(kernel) for kernel in graph.kernels)
    numbers = 4 * 16 * 384 * 64
    assert (3 * numbers * 2, numbers * 2) == (work.read_bytes, work.write_bytes)
    assert 0 == footprint(graph).extra_bytes


def test_the_engine_reads_hbm_once_and_beats_no_bound(example: ModuleType) -> None:
    """Cold HBM reads are the inputs, and the time is above the closed-form bound."""
    spec = load_gpu(example.GPU)
    run = simulate(example.resident_attention(example.WORKLOAD), spec, Conditions(timing="ncu"))
    assert example.WORKLOAD.input_bytes == sum(kernel.hbm_read_bytes for kernel in run.kernels)
    assert lower_bound(example.WORKLOAD, spec, "cold").ms <= ms_from_ps(run.latency_ps)


def test_the_script_prints_bytes_latency_and_error() -> None:
    """Run as a user runs it: error below 1e-12, 12,582,912 B asked of L2 (4·384·64·2 a head), a time in ms."""
    done = subprocess.run(
        [sys.executable, "-c", f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "asked of L2    12,582,912 B (compulsory 12,582,912 B)" in done.stdout
    assert float(re.search(r"max error +(\S+)", done.stdout)[1]) < 1e-12
    assert float(re.search(r"latency +(\S+) ms on a100_sxm4_40gb", done.stdout)[1]) > 0
