"""How to install what is missing: from the checkout that gpusim runs from, or beside an installed wheel.

gpusim is in no package index. Where it is installed as a wheel, pip takes the one that is there and adds what it lacks.
"""

from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent


def install_command(extra: str = "") -> str:
    """The command that installs an extra, or without one the packages that every command needs."""
    named = f"[{extra}]" if extra else ""
    if not (_CHECKOUT / "pyproject.toml").is_file():
        return f"pip install 'gpusim{named}'"
    return f"pip install -e '.{named}'"
