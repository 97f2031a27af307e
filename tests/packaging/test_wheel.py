"""The wheel carries its data and runs the quickstart far from the repository."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a release would be."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr
    (path,) = folder.glob("gpusim-*.whl")
    return path


def names(folder: str, pattern: str) -> set[str]:
    """File names in the repository."""
    return {path.name for path in (ROOT / folder).glob(pattern)}


def test_it_carries_its_data(wheel: Path) -> None:
    """Configs, scenarios, tables with notices, spellings, implementations, pages, the typing marker and the licence."""
    held = set(zipfile.ZipFile(wheel).namelist())
    data = {f"gpusim/_data/configs/{name}" for name in names("configs", "*.yaml")}
    data |= {f"gpusim/_data/scenarios/{name}" for name in names("scenarios", "*.yaml")}
    data |= {f"gpusim/_data/measured/{name}" for name in names("validation/measured", "*.csv")}
    data |= {f"gpusim/implementations/{name}" for name in names("gpusim/implementations", "*.yaml")}
    data |= {f"gpusim/report/page/{name}" for name in names("gpusim/report/page", "*")}
    data |= {"gpusim/_data/measured/NOTICE", "gpusim/_data/measured/SOURCES.md", "gpusim/_data/trust.csv"}
    data |= {"gpusim/measured/aliases.yaml", "gpusim/py.typed"}
    assert set() == data - held
    assert any(name.endswith("licenses/LICENSE") for name in held)
    assert not any(name.startswith(("tests/", "validation/", "benchmarks/")) for name in held)


def test_it_runs_a_shipped_scenario_by_name_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """Installed alone and called from an empty folder: naive attention moves 768 bytes, tiles of 4 move 384."""
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    environment = os.environ | {"PYTHONPATH": str(site)}  # stands before the site-packages of this environment
    where = [sys.executable, "-c", "import gpusim, gpusim.datafiles as d; print(gpusim.__file__, d.configs_dir())"]
    found = subprocess.run(where, cwd=elsewhere, env=environment, capture_output=True, text=True, check=True)
    assert all(path.startswith(str(site)) for path in found.stdout.split())
    asked = [sys.executable, "-c", "from gpusim.extras import install_command; print(install_command('fast'))"]
    said = subprocess.run(asked, cwd=elsewhere, env=environment, capture_output=True, text=True, check=True)
    assert "pip install 'gpusim[fast]'" == said.stdout.strip()  # there is no checkout to install from
    run = [sys.executable, str(site / "bin" / "gpusim"), "run", "canvas_bytes", "--workers", "1", "--out", "out"]
    done = subprocess.run(run, cwd=elsewhere, env=environment, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    points = json.loads((elsewhere / "out" / "results.json").read_text())["points"]
    moved = [point["hbm_read_bytes"] + point["hbm_write_bytes"] for point in points[:2]]
    assert [768, 384] == moved
