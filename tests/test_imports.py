"""Who imports whom, and what `import gpusim` leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ["matplotlib", "torch", "joblib", "ml_dtypes", "dask"]


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after the statement."""
    program = f"{statement}\nimport sys\nprint('\\n'.join(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import gpusim", "from gpusim import load_gpu, simulate, run_point, load_scenario"]
)
def test_heavy_libraries_are_imported_late(statement: str) -> None:
    """Plots, process pools and frameworks wait until somebody needs them."""
    assert set() == loaded_by(statement) & set(HEAVY)


def test_every_public_name_can_be_imported() -> None:
    """`from gpusim import *` finds all that __all__ promises."""
    assert "gpusim" in loaded_by("from gpusim import *")


def test_imports_point_one_way() -> None:
    """The layers and forbidden imports of pyproject.toml hold."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stdout + done.stderr
