"""JSON Schemas of GPU and scenario files, for editors that check YAML while it is written.

`python -m gpusim.editor_schema docs/schemas` renews the shipped files.
"""

import json
import sys
from pathlib import Path

from gpusim.implementations import implementations
from gpusim.report import write_whole
from gpusim.scenario import CONDITION_FIELDS, FIELDS, ScenarioFile
from gpusim.specs import gpu_json_schema


def scenario_json_schema() -> dict[str, object]:
    """JSON Schema of a scenario file; any field of the workload, the conditions or the sweep may be a list.

    Which fields belong together depends on the schedules, which an editor does not know: those of all are offered.
    """
    schema = ScenarioFile.model_json_schema()
    for group in ("workload", "conditions", "sweep", "zip"):
        known = CONDITION_FIELDS if group == "conditions" else FIELDS
        schema["properties"][group]["propertyNames"] = {"enum": list(known)}
    name = {"type": "string", "pattern": f"^({'|'.join(implementations())})(@.+)?$"}
    choice = {"type": "object", "required": ["name"], "properties": {"name": name}}
    one = {"anyOf": [name, choice]}
    schema["properties"]["schedule"] = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    return schema


def schema_files() -> dict[str, str]:
    """File name → text of every schema."""
    schemas = {"gpu.schema.json": gpu_json_schema(), "scenario.schema.json": scenario_json_schema()}
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


if __name__ == "__main__":
    for name, text in schema_files().items():
        write_whole(Path(sys.argv[1]) / name, text)
