"""The shipped JSON Schemas are those of the code, and accept the files that the code accepts."""

import json
from pathlib import Path

import pytest

from gpusim.editor_schema import schema_files
from gpusim.scenario import FIELDS

DOCS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_shipped_schema_is_that_of_the_code(name: str) -> None:
    """A changed field is a changed schema file: `python -m gpusim.editor_schema docs/schemas` renews it."""
    assert schema_files()[name] == (DOCS / name).read_text(encoding="utf-8")


def test_scenario_schema_knows_every_field() -> None:
    """An editor completes exactly the fields that a scenario may vary."""
    schema = json.loads((DOCS / "scenario.schema.json").read_text(encoding="utf-8"))
    assert list(FIELDS) == schema["properties"]["sweep"]["propertyNames"]["enum"]
