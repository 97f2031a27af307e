"""The microbenchmarks without a GPU: they compile, hold the instructions they are named after, and have checks."""

from math import gcd

import pytest

from gpusim.measured import read_measured
from gpusim.specs import load_gpu
from gpusim.workloads import StreamWorkload
from validation.collect.cubins import compiled
from validation.collect.device import facts_of
from validation.collect.runner import csv_text
from validation.collect.work import Case, Program, Work
from validation.microbenchmarks import cases
from validation.microbenchmarks.programs import EXP_FIXED_POINT, PROGRAMS, SPIN, check_of, ring

H200 = facts_of(load_gpu("h200_sxm_141gb"))
A100 = facts_of(load_gpu("a100_sxm4_80gb"))
INSTRUCTIONS = {
    "mma_sync_rate_fp16": {"HMMA.16816.F32": 8},
    "mma_sync_rate_bf16": {"HMMA.16816.F32.BF16": 8},
    "wgmma_rate_fp16": {"HGMMA.64x256x16.F32": 8},
    "wgmma_rate_bf16": {"HGMMA.64x256x16.F32.BF16": 8},
    "exp_rate": {"MUFU.EX2": 8},
    "smem_read_1": {"LDS": 8},
    "smem_read_wide": {"LDS.128": 8},
    "cache_read": {"LDG.E.128.STRONG.GPU": 4},
    "pointer_chase": {"LDG.E.STRONG.GPU": 1},
}
BUILDS = [
    (name, capability)
    for name, program in {**PROGRAMS, "spin": SPIN}.items()
    for capability in ((8, 0), (9, 0), (10, 0))
    if program.runs_on(capability)
]


@pytest.mark.parametrize(("name", "capability"), BUILDS)
def test_it_compiles_without_spills(name: str, capability: tuple[int, int]) -> None:
    """By NVRTC, for every architecture it is for."""
    program = SPIN if name == "spin" else PROGRAMS[name]
    report = compiled(program, program.architecture(capability)).resources(program.entry)
    assert 0 == report.spill_bytes
    assert 0 < report.registers <= 255


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_a_round_holds_the_instructions_that_its_rate_counts(name: str) -> None:
    """Loops of rounds are not unrolled: the static count is that of a round, such as eight chains or four loads."""
    program = PROGRAMS[name]
    held = compiled(program, program.architecture((9, 0))).instructions()
    for instruction, count in INSTRUCTIONS[name].items():
        exact = sum(number for mnemonic, number in held.items() if _is(mnemonic, instruction))
        assert count == exact, held


def _is(mnemonic: str, instruction: str) -> bool:
    """Whether a mnemonic is the instruction; wgmma's may carry more modifiers."""
    return mnemonic == instruction or (instruction.startswith("HGMMA") and mnemonic.startswith("HGMMA"))


def test_a_ring_visits_every_line_once() -> None:
    """1,000 hops from line 0 come back to it, over 1,000 different lines of 128 bytes."""
    words, line, seen = ring(1000), 0, set()
    for _ in range(1000):
        seen.add(line)
        line = int(words[line, 0])
    assert (0, 1000, (1000, 32)) == (line, len(seen), words.shape)


def test_the_fixed_point_of_the_exp_kernel() -> None:
    """x = 2^-x."""
    assert pytest.approx(2**-EXP_FIXED_POINT, abs=1e-12) == EXP_FIXED_POINT


def test_the_stream_checks_expect_what_the_kernels_are_named_after() -> None:
    """Of a = i and b = 999 - i: fills of 3, 2a and a + 2b; thread 0 of 256 reads 0 + 256 + 512 + 768."""
    expected = {name: check_of(name).expected()["out"] for name in cases.STREAMS}
    assert (3.0, 2.0, 1.0 + 2 * 998) == (
        expected["stream_init"][1],
        expected["stream_scale"][1],
        expected["stream_triad"][1],
    )
    assert 1536.0 == expected["stream_read"][0]


def test_the_cache_check_sums_what_a_thread_reads() -> None:
    """Thread 0 of part 0 reads numbers 0 to 3 of each quarter (i mod 7), thrice; its neighbour CTA the same."""
    sums = check_of("cache_read").expected()["sums"]
    quarter_starts = (0, 1024, 2048, 3072)
    by_hand = 3 * sum((start + i) % 7 for start in quarter_starts for i in range(4))
    assert by_hand == sums[0, 0] == sums[1, 0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_a_check_of_its_own(name: str) -> None:
    """A small run that launches it, and expects numbers that come back."""
    check = check_of(name)
    assert PROGRAMS[name] in {launch.program for launch in check.work.launches}
    for array, values in check.expected().items():
        assert array in check.work.read_back
        assert values.size <= check.work.arrays[array].count


@pytest.mark.parametrize("facts", [A100, H200], ids=["A100", "H200"])
def test_every_case_checks_what_it_launches(facts) -> None:
    """Each program of a case is launched by one of the case's checks."""
    every = [case for make in _MAKERS for case in make(facts)]
    for case in every:
        checked = {launch.program for check in case.checks for launch in check.work.launches}
        assert set(case.programs()) <= checked, case.name


_MAKERS = (
    cases.stream_cases,
    cases.large_read_cases,
    cases.chase_cases,
    cases.cache_cases,
    cases.launch_cases,
    cases.empty_cases,
    cases.rate_cases,
)


def case_of(make, name: str, facts=H200) -> Case:
    """The case of this name."""
    return next(case for case in make(facts) if case.name == name)


def launch_of(case: Case):
    """Its one launch."""
    assert isinstance(case.call, Work)
    (launch,) = case.call.launches
    return launch


def test_dynamic_shared_memory_holds_as_many_ctas_as_asked() -> None:
    """228 KiB an SM, a KiB of each CTA for the system: of 113 KiB two fit and three do not.

    16,384 tiles are 63 each for 261 CTAs.
    """
    launch = launch_of(case_of(cases.stream_cases, "stream_read 8388608 x2x512"))
    assert (113 * 1024, 261, 512) == (launch.smem_bytes, launch.grid[0], launch.block)


def test_a_short_stream_has_no_idle_ctas() -> None:
    """65,536 numbers are 64 tiles of 1,024, one for each of 64 CTAs."""
    launch = launch_of(case_of(cases.stream_cases, "stream_triad 65536 x2x1024"))
    assert (64, 1, 1) == launch.grid


def test_rates_count_what_a_round_does() -> None:
    """132 SMs · 4 CTAs · 8 warps · 8,192 rounds · 8 products of 4,096 FLOP in a millisecond."""
    flop = 132 * 4 * 8 * 8192 * 8 * 2 * 16 * 8 * 16
    measured = case_of(cases.rate_cases, "mma_sync_rate_fp16").measured(1.0)
    assert pytest.approx(flop / 1e-3 / 1e12) == measured["tflops"]


def test_shared_memory_reads_count_their_bytes() -> None:
    """4 bytes a thread and read, whatever the conflicts; 16 in the wide one."""
    per_read = 132 * 4 * 256 * 4096 * 8
    assert pytest.approx(4 * per_read / 1e9) == case_of(cases.rate_cases, "smem_read_32").measured(1.0)["tb_per_s"]
    assert pytest.approx(16 * per_read / 1e9) == case_of(cases.rate_cases, "smem_read_wide").measured(1.0)["tb_per_s"]


def test_strides_of_shared_memory_give_every_degree_of_conflict() -> None:
    """gcd(stride, 32) lanes meet in a bank: 1, 2, 4, 8, 16 and 32."""
    strides = [
        int(dict(program.defines)["STRIDE"])
        for name, program in PROGRAMS.items()
        if name.startswith("smem_read_") and "wide" not in name
    ]
    assert [1, 2, 4, 8, 16, 32] == [gcd(stride, 32) for stride in strides]


def test_wgmma_is_measured_on_hopper_alone() -> None:
    """An A100 has mma.sync only."""
    names = [{case.cells["kernel"] for case in cases.rate_cases(facts)} for facts in (A100, H200)]
    assert ["wgmma_rate" in found for found in names] == [False, True]


def test_parts_of_a_cache_read_are_shared_and_then_disjoint() -> None:
    """On 132 SMs: 4 parts of 512 KiB shared by 66 CTAs each; at last a part for each of 264 CTAs."""
    every = list(cases.cache_cases(H200))
    first, last = launch_of(every[0]), launch_of(every[-1])
    assert (264, 66) == (first.grid[0], int(first.arguments[3]))
    assert (264, 1) == (last.grid[0], int(last.arguments[3]))


def test_an_array_of_a_stream_is_as_long_as_its_row_says(tmp_path) -> None:
    """The reader takes `elements` from the row; nothing is assumed but the clock."""
    case = case_of(cases.stream_cases, "stream_triad 1048576 x2x1024")
    path = tmp_path / "stream.csv"
    path.write_text(csv_text([{"gpu": H200.gpu, "cache": "warm", **case.cells, **case.measured(0.01)}]))
    file = read_measured(path)
    workload = file.rows[0].workload
    assert isinstance(workload, StreamWorkload)
    assert (1 << 20, 2, 1, 1024, 2) == (
        workload.elements,
        workload.loads,
        workload.stores,
        workload.threads_per_cta,
        workload.ctas_per_sm,
    )
    assert {"sm_clock_mhz": 1} == file.assumed
    assert 0.01 == pytest.approx(file.rows[0].latency_ms)


def test_a_program_is_a_file_that_exists() -> None:
    """And states sizes as text."""
    for program in PROGRAMS.values():
        assert isinstance(program, Program)
        assert program.file.exists()
        assert f" {program.entry}(" in program.file.read_text().replace("\n", " ")


def test_footprints_of_a_chase_follow_the_l2() -> None:
    """On 40 MiB of an A100 and 50 MiB of an H200: from a twentieth to four times."""
    for facts, smallest, largest in ((A100, 2, 160), (H200, 2, 200)):
        sizes_kib = [int(str(case.cells["data_kb"])) for case in cases.chase_cases(facts)]
        assert (smallest * 1024, largest * 1024) == (sizes_kib[0], sizes_kib[-1])
