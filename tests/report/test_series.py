"""Which points are one line, and its name."""

import subprocess
import sys
from collections.abc import Callable

from gpusim.report.series import series_names, series_of
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
