"""Where the data files lie: in a checkout beside the package, in an installed wheel inside it."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def configs_dir() -> Path:
    """Folder of the shipped GPU files."""
    return _find("configs", _PACKAGE.parent / "configs")


def scenarios_dir() -> Path:
    """Folder of the shipped scenarios."""
    return _find("scenarios", _PACKAGE.parent / "scenarios")


def measured_dir() -> Path:
    """Folder of the measured tables."""
    return _find("measured", _PACKAGE.parent / "validation" / "measured")


def trust_list() -> Path:
    """File that says which measured rows count in an error figure."""
    return _find("trust.csv", _PACKAGE.parent / "validation" / "trust.csv")


def bands_list() -> Path:
    """File with the error band of each GPU and implementation."""
    return _find("bands.csv", _PACKAGE.parent / "validation" / "bands.csv")


def _find(name: str, in_checkout: Path) -> Path:
    installed = _PACKAGE / "_data" / name
    return installed if installed.exists() else in_checkout
