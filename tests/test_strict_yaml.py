"""The strict YAML reader refuses what readers disagree on, and pydantic's complaints come out in plain words."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from gpusim.errors import ConfigError, ScenarioError
from gpusim.strict_yaml import (
    REFUSED,
    STRICT,
    PositiveNumber,
    PositiveWhole,
    Problem,
    leaf_paths,
    load_strict,
    merged_problems,
    parse_strict,
    problems_from,
    read_text,
    unit_of,
)


class Sm(BaseModel):
    """A nested model with limits of every kind."""

    model_config = STRICT

    count: PositiveWhole
    clock_hz: PositiveNumber
    smem_bytes: PositiveWhole
    share: float = Field(ge=0, lt=1)


class Gpu(BaseModel):
    """A model that holds another."""

    model_config = STRICT

    name: str
    kind: Literal["real", "toy"]
    sm: Sm
    rates: dict[str, PositiveWhole]
    spare: Sm | None


GOOD: dict[str, object] = {
    "name": "g",
    "kind": "toy",
    "sm": {"count": 2, "clock_hz": 1e9, "smem_bytes": 1024, "share": 0.5},
    "rates": {"fp16": 8},
    "spare": None,
}


def problems_of(text: str) -> tuple[str, ...]:
    """What loading this text complains about."""
    with pytest.raises(ConfigError) as caught:
        load_strict(text, "gpu.yaml")
    return caught.value.problems


def complaints(**changes: object) -> list[str]:
    """What validating a good model with these changes complains about."""
    with pytest.raises(ValidationError) as caught:
        Gpu.model_validate({**GOOD, **changes})
    return problems_from(caught.value, Gpu)


def sm(**changes: object) -> dict[str, object]:
    """A good nested mapping with these changes."""
    return {"count": 2, "clock_hz": 1e9, "smem_bytes": 1024, "share": 0.5, **changes}


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.5e9", 1.5e9), ("1e9", 1e9), ("-2E-3", -0.002), (".5", 0.5), ("3.", 3.0), ("+7", 7), ("0", 0), ("012", 12)],
)
def test_numbers_are_those_of_yaml_1_2(text: str, number: float) -> None:
    """An exponent needs neither a dot nor a sign, and a leading zero is not octal."""
    assert {"x": number} == load_strict(f"x: {text}", "f")
    assert type(number) is type(load_strict(text, "f"))


@pytest.mark.parametrize("text", ["1_000", "1:30", "0x1F", "0o17", "2024-07-11", "1.41 GHz", "X", "'1.5e9'", '"no"'])
def test_text_stays_text(text: str) -> None:
    """Underscores, sexagesimals, hexadecimals, dates and quoted scalars are text."""
    assert [text.strip("'\"")] == load_strict(f"[{text}]", "f")


def test_booleans_and_null() -> None:
    """true and false are booleans; null, ~ and nothing are null."""
    text = "{a: true, b: False, c: null, d: ~, e: }"
    assert {"a": True, "b": False, "c": None, "d": None, "e": None} == load_strict(text, "f")


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "y", "n", "Yes", "OFF"])
def test_other_booleans_of_yaml_1_1_are_refused(word: str) -> None:
    """A word that some readers take for a boolean is refused with its line, field and both ways to write it."""
    (problem,) = problems_of(f"workload:\n  causal: {word}\n")
    assert (
        f'line 2: workload.causal: got {word}, which YAML readers disagree on; write true, false or "{word}"' == problem
    )


@pytest.mark.parametrize("word", ["n", "y"])
def test_a_letter_may_name_a_field(word: str) -> None:
    """A product has sides m, n and k; as a key no letter is a boolean."""
    assert {word: 4096} == load_strict(f"{word}: 4096", "f")


@pytest.mark.parametrize("word", [".nan", "nan", ".inf", "-.inf", "inf", "Infinity", "NaN", "1e999"])
def test_numbers_that_are_not_finite_are_refused(word: str) -> None:
    """NaN, infinity and what overflows to it are no sizes."""
    (problem,) = problems_of(f"a:\n  - 1\n  - {word}\n")
    assert problem.startswith("line 3: a[1]: ")
    assert "expected a finite number" in problem


def test_duplicate_keys_are_refused_with_both_lines() -> None:
    """The last of two equal keys does not silently win."""
    assert ("line 4: sm.count: appears twice, first on line 2; keep one",) == problems_of(
        "sm:\n  count: 1\n  clock_hz: 2\n  count: 3\n"
    )


def test_all_problems_of_one_text_arrive_together() -> None:
    """A duplicate key, a YAML 1.1 boolean and a NaN are three problems of one error."""
    assert ["line 2", "line 3", "line 4"] == [
        problem.split(": ")[0] for problem in problems_of("a: 1\na: 2\nb: yes\nc: .nan\n")
    ]


def test_a_document_goes_on_after_a_problem() -> None:
    """What cannot be read is REFUSED, of two equal keys the first stands, and all else is there."""
    document = parse_strict("a: 1\na: 2\nb: [yes, 3]\nno: {c: .nan}\nd: 4\n", "f")
    assert {"a": 1, "b": [REFUSED, 3], "d": 4} == document.value
    assert ["a", "b[0]", "no", "no.c"] == [problem.field for problem in document.problems]


@pytest.mark.parametrize("field", ["name", "kind", "sm", "rates", "spare"])
def test_no_field_takes_what_could_not_be_read(field: str) -> None:
    """Optional fields neither: what follows from such a value is complained about at its own path."""
    assert complaints(**{field: REFUSED})[0].startswith(f"{field}: ")


def test_problems_of_text_and_meaning_are_merged_by_line() -> None:
    """What the text makes unreadable is not called wrong again, and nothing in it missing."""
    text = [Problem("sm", "appears twice", 5), Problem("b", "got .nan", 2)]
    wrong = Problem("sm.count", "got 0", 4)
    meaning = [wrong, Problem("b", "got REFUSED", 2), Problem("sm.clock_hz", "missing, expected a number")]
    absent = Problem("smem", "missing")
    assert (text[1], wrong, text[0], absent) == merged_problems(text, [*meaning, absent])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c\n", "line 1: not valid YAML: a second ': ' on one line"),
        ("a:\n\t- 1\n", "line 2: not valid YAML: a tab where spaces belong"),
        ("a: [1, 2\n", "not valid YAML"),
        ("a: 'x\n", "not valid YAML: the file ends inside a quoted text"),
        ("a: 1\n---\nb: 2\n", "line 2: not valid YAML: a second document"),
        ("a: &x 1\nb: *x\n", "line 2: not valid YAML: aliases (*name) are not supported"),
        ("a: !!int 5\n", "line 1: a: tags such as"),
        ("a: !!python/object:os.system x\n", "line 1: a: tags such as"),
        ("? [1]\n: 2\n", "line 1: a list or mapping cannot be a key"),
        ("a: \x00\n", "not readable as text"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_in_plain_words(text: str, words: str) -> None:
    """Syntax errors, second documents, aliases, tags and control characters end in one message with a line."""
    (problem,) = problems_of(text)
    assert words in problem


def test_the_error_names_the_file_and_is_of_the_type_asked_for() -> None:
    """A scenario's problems are ScenarioErrors whose text starts with the file."""
    with pytest.raises(ScenarioError, match=r"^sweep\.yaml: line 1: causal: got no"):
        load_strict("causal: no", "sweep.yaml", ScenarioError)


def test_an_empty_text_is_null() -> None:
    """Nothing, or only comments, reads as None; the caller says what was expected."""
    assert load_strict("# nothing\n", "f") is None


def test_lines_of_dotted_paths_are_kept() -> None:
    """Every key and list item can be pointed at later."""
    lines = parse_strict("sm:\n  count: 1\nsweep:\n  - 2\n  - 3\n", "f").lines
    assert (1, 2, 5) == (lines["sm"], lines["sm.count"], lines["sweep[1]"])


def test_files_that_cannot_be_read_say_why(tmp_path) -> None:
    """A missing file, a folder and bytes that are no text are refused by name."""
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    for name, words in {"none.yaml": "no such file", "latin.yaml": "not a UTF-8", ".": "cannot be read"}.items():
        with pytest.raises(ConfigError, match=words):
            read_text(tmp_path / name)


def test_a_wrong_value_is_shown_with_rule_type_and_unit() -> None:
    """The message has field path, value, expected type, unit and bound; each bad field has its own."""
    assert [
        "sm.count: got 0, expected a whole number greater than 0",
        "sm.clock_hz: got 'X', expected a number in Hz greater than 0",
        "sm.smem_bytes: got 1.5, expected a whole number in bytes greater than 0",
        "sm.share: got 1, expected a number of at least 0 and below 1",
    ] == complaints(sm=sm(count=0, clock_hz="X", smem_bytes=1.5, share=1))


@pytest.mark.parametrize("value", [True, "2", None, float("nan"), float("inf"), -1, [2], {}])
def test_no_value_is_coerced_to_a_number(value: object) -> None:
    """Booleans, text, null, NaN, infinity, negatives, lists and groups are not sizes."""
    assert complaints(sm=sm(clock_hz=value))[0].startswith("sm.clock_hz: got ")
    assert complaints(sm=sm(count=value))[0].startswith("sm.count: got ")


def test_a_whole_number_may_be_written_with_an_exponent() -> None:
    """1.5e9 bytes is a whole number of bytes."""
    assert Gpu.model_validate({**GOOD, "sm": sm(smem_bytes=1.5e9)}).sm.smem_bytes == 1_500_000_000


def test_a_number_with_its_unit_is_told_apart() -> None:
    """Text that starts like a number gets the hint to write the number alone."""
    assert "write the number alone" in complaints(sm=sm(clock_hz="1.41 GHz"))[0]


def test_an_unknown_key_suggests_the_one_that_was_meant() -> None:
    """A misspelt key, a wrong unit and a key of another group are recognised; else the known keys are listed."""
    assert complaints(sm=sm(clock_mhz=1410)) == [
        "sm.clock_mhz: unknown key; did you mean sm.clock_hz (a number in Hz greater than 0)?"
    ]
    assert complaints(clock_hz=1) == ["clock_hz: unknown key; did you mean sm.clock_hz?"]
    assert complaints(qqq=1) == ["qqq: unknown key; known keys here: name, kind, sm, rates, spare"]


def test_a_dotted_key_is_told_to_be_a_group() -> None:
    """Dots are for --set and sources; a file nests."""
    assert complaints(**{"sm.clock_hz": 1}) == ["sm.clock_hz: unknown key; write one group per dot, sm: {clock_hz: …}"]


def test_a_missing_group_is_listed_key_by_key() -> None:
    """Each missing key comes with its expected type and unit."""
    with pytest.raises(ValidationError) as caught:
        Gpu.model_validate({"name": "g", "kind": "toy", "rates": {}, "spare": None})
    assert [
        "sm.count: missing, expected a whole number greater than 0",
        "sm.clock_hz: missing, expected a number in Hz greater than 0",
        "sm.smem_bytes: missing, expected a whole number in bytes greater than 0",
        "sm.share: missing, expected a number of at least 0 and below 1",
    ] == problems_from(caught.value, Gpu)


def test_choices_mappings_and_optional_groups_are_described() -> None:
    """A wrong choice lists the choices, a wrong mapping value its rule, a wrong group its keys."""
    assert complaints(kind="tay") == ["kind: got 'tay', expected one of real, toy"]
    assert complaints(rates={"fp16": -8}) == ["rates.fp16: got -8, expected a whole number greater than 0"]
    assert complaints(spare=3) == [
        "spare: got 3, expected a group of keys (count, clock_hz, smem_bytes, share) or null"
    ]
    assert complaints(name=8.0) == ['name: got 8.0, expected text; quote it: "8.0"']


def test_lines_are_added_where_the_text_has_them() -> None:
    """A complaint about a field that stands in the file points at its line."""
    document = parse_strict("name: g\nkind: toy\nsm: {count: 2, clock_hz: 1, smem_bytes: -1, share: 0}\n", "f")
    with pytest.raises(ValidationError) as caught:
        Gpu.model_validate({**GOOD, **document.value})
    (problem,) = problems_from(caught.value, Gpu, document.lines)
    assert problem.startswith("line 3: sm.smem_bytes: got -1")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("clock_hz", "Hz"),
        ("smem_bandwidth_bytes_per_clk", "bytes per clock"),
        ("peak_bandwidth_bytes_per_s", "bytes/s"),
        ("pin_rate_bits_per_s", "bits/s"),
        ("capacity_bytes", "bytes"),
        ("latency_ns", "ns"),
        ("limit_w", "W"),
        ("ctas_per_s", "CTAs/s"),
        ("max_warps", ""),
    ],
)
def test_the_end_of_a_name_states_its_unit(name: str, unit: str) -> None:
    """Units come from field names, so that a message cannot disagree with the field."""
    assert unit == unit_of(name)


def test_leaf_paths_run_through_optional_groups() -> None:
    """Every field that is no group has a path, in the order of the model."""
    assert leaf_paths(Gpu)[:3] == ["name", "kind", "sm.count"]
    assert "spare.clock_hz" in leaf_paths(Gpu)
