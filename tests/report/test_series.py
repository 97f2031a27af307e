"""Which points are one line, and its name."""

import subprocess
import sys
from collections.abc import Callable

from gpusim.report.series import axis_of, series_names, series_of
from gpusim.results import PointResult

PointMaker = Callable[..., PointResult]


def test_a_line_is_named_by_its_implementation(make_point: PointMaker) -> None:
    """When only the length differs, the name is the implementation and nothing else."""
    points = [make_point("flash1", 256), make_point("flash2", 256), make_point("flash1", 128)]
    assert series_names(points) == ("flash1", "flash2", "flash1")
    lines = series_of(points)
    assert [line.name for line in lines] == ["flash1", "flash2"]
    assert [point.seqlen_k for point in lines[0].points] == [128, 256]


def test_several_gpus_stand_in_the_name(make_point: PointMaker) -> None:
    """Two GPUs are two lines of one family."""
    lines = series_of([make_point(), make_point(gpu="h100_sxm5_80gb")])
    assert [line.name for line in lines] == ["flash2 a100_sxm4_40gb", "flash2 h100_sxm5_80gb"]
    assert {line.family for line in lines} == {"flash2"}


def test_one_gpu_as_shipped_and_with_something_set_are_two_lines(make_point: PointMaker) -> None:
    """The name says what was set, where not all points share it."""
    plain, changed = make_point(), make_point(overrides="sm.clock_hz=1e9")
    assert ("flash2 a100_sxm4_40gb", "flash2 a100_sxm4_40gb with sm.clock_hz=1e9") == series_names([plain, changed])
    assert ("flash2",) == series_names([changed])


def test_a_field_enters_the_name_only_if_it_tells_lines_apart(make_point: PointMaker) -> None:
    """Heads that follow from the head dim, and a batch that follows from the length, stay out."""
    points = [
        make_point(seqlen=seqlen, batch=16384 // seqlen, head_dim=head_dim, heads=2048 // head_dim)
        for seqlen in (512, 1024)
        for head_dim in (64, 128)
    ]
    assert series_names(points) == ("flash2 d=64", "flash2 d=128") * 2


def test_a_custom_schedule_is_named_by_the_schedule_and_its_tiles(make_point: PointMaker) -> None:
    """Custom points are no line of the released implementation, and their tiles tell them apart."""
    custom = [make_point("custom", schedule="flash2", tile_kv=tile_kv) for tile_kv in (64, 128)]
    names = series_names([make_point("flash2"), *custom])
    assert names == ("flash2", "flash2 (custom) tile_kv=64", "flash2 (custom) tile_kv=128")


def test_causal_reads_as_a_statement(make_point: PointMaker) -> None:
    """Booleans are spelled as users write them."""
    names = series_names([make_point(causal=False), make_point(causal=True)])
    assert names == ("flash2 causal=false", "flash2 causal=true")


def test_importing_the_package_loads_neither_matplotlib_nor_rich() -> None:
    """Only plots and tables load the heavy libraries."""
    check = "import sys, gpusim.report; print({'matplotlib', 'rich'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def kernel_point(**fields: object) -> PointResult:
    """A point of a single kernel that was simulated."""
    head = {"gpu": "a100_sxm4_40gb", "schedule": "gemm", "implementation": "torch_matmul", "version": None}
    asked = {"dtype": "fp16", "sm_clock_mhz": None, "timing": "event", "cache": "cold", "stack": None, "status": "ok"}
    return PointResult.model_validate(head | asked | fields)


def product(m: int = 64, n: int = 64, k: int = 64, **fields: object) -> PointResult:
    """A matrix product."""
    return kernel_point(batch=1, m=m, n=n, k=k, **fields)


def stream(**fields: object) -> PointResult:
    """A copy of 1,000 elements."""
    shape = {"elements": 1000, "loads": 1, "stores": 1, "threads_per_cta": 1024, "ctas_per_sm": 2}
    return kernel_point(schedule="stream", implementation="stream", **(shape | fields))


def test_points_are_drawn_against_their_size(make_point: PointMaker) -> None:
    """Sequence length of attention, rows of a product, elements of a stream, bytes of a set."""
    reads = kernel_point(footprint_bytes=4096, part_bytes=512, rounds=8, ctas_per_sm=2)
    sizes = [make_point(), product(), stream(), kernel_point(rows=4, cols=8), reads]
    assert ["seqlen_k", "m", "elements", "cols", "footprint_bytes"] == [axis_of([point]).field for point in sizes]
    assert [1024, 64, 1000, 8, 4096] == [point.size for point in sizes]
    assert "seqlen_k" == axis_of([]).field


def test_where_the_size_is_one_and_the_same_what_varies_is_the_axis() -> None:
    """Products of one m and n against k; streams of one length against CTAs per SM, which then is no name of a line."""
    assert "k" == axis_of([product(k=k) for k in (64, 128)]).field
    assert "m" == axis_of([product(m=m, k=k) for m in (64, 128) for k in (64, 128, 256)]).field
    streams = [stream(ctas_per_sm=ctas, loads=loads) for ctas in (1, 2) for loads in (1, 2)]
    assert "ctas_per_sm" == axis_of(streams).field
    assert ("stream loads=1", "stream loads=2") * 2 == series_names(streams)


def test_an_answer_is_no_axis() -> None:
    """The residency of a product is simulated, not asked for."""
    points = [product(tile_m=tile_m, ctas_per_sm=ctas) for tile_m, ctas in ((64, 4), (128, 2))]
    assert "m" == axis_of(points).field
    assert ("torch_matmul tile_m=64", "torch_matmul tile_m=128") == series_names(points)


def test_sides_that_follow_the_size_stay_out_of_the_name() -> None:
    """Square products are one line; a second depth makes two."""
    assert {"torch_matmul"} == set(series_names([product(m, m, m) for m in (64, 128)]))
    names = series_names([product(m, k=k) for m in (64, 128) for k in (32, 64)])
    assert ("torch_matmul k=32", "torch_matmul k=64") * 2 == names
