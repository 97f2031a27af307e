"""GPU files: names and paths, `base`, sources, overrides, schema."""

from pathlib import Path

import pytest

from gpusim.datafiles import configs_dir
from gpusim.errors import ConfigError, InputError
from gpusim.specs import apply_overrides, gpu_json_schema, load_gpu

SOURCE = "{kind: assumed, source: a test}"


def write(folder: Path, text: str, name: str = "mine.yaml") -> str:
    """Writes a GPU file and returns its path."""
    path = folder / name
    path.write_text(text)
    return str(path)


def refusal(path: str) -> str:
    """The message that loading this file raises."""
    with pytest.raises(ConfigError) as caught:
        load_gpu(path)
    return str(caught.value)


def test_a_file_loads_like_the_shipped_name() -> None:
    """A path that ends in .yaml is a file."""
    assert load_gpu("canvas") == load_gpu(str(configs_dir() / "canvas.yaml"))


def test_a_base_supplies_what_the_file_leaves_out(tmp_path: Path) -> None:
    """Groups merge key by key; the changed number has the file's source, the others the base's."""
    text = f"base: a100_sxm4_80gb\nname: mine\nsm: {{count: 54}}\nsources: {{sm.count: {SOURCE}}}\n"
    mine, base = load_gpu(write(tmp_path, text)), load_gpu("a100_sxm4_80gb")
    assert (54, "mine", base.memory) == (mine.sm.count, mine.name, mine.memory)
    assert mine.sm.model_copy(update={"count": 108}) == base.sm
    assert "a test" == mine.sources["sm.count"].source
    assert base.sources["sm.clock_hz"] == mine.sources["sm.clock_hz"]


def test_a_base_may_be_a_file_beside(tmp_path: Path) -> None:
    """A base that ends in .yaml is found relative to the file that names it."""
    write(tmp_path, "base: canvas\nname: first\n", "first.yaml")
    assert "second" == load_gpu(write(tmp_path, "base: first.yaml\nname: second\n")).name


def test_a_group_can_be_taken_away_with_its_sources(tmp_path: Path) -> None:
    """`l2: null` removes the L2 of the base; no source of it stays behind."""
    mine = load_gpu(write(tmp_path, "base: a100_sxm4_40gb\nname: mine\nmemory: {l2: null}\n"))
    assert mine.memory.l2 is None
    assert not [path for path in mine.sources if path.startswith("memory.l2")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: gtx1080\nname: x\n", "'gtx1080' is not known; choose one of: a10, a100_pcie_40gb"),
        ("base: mine.yaml\nname: x\n", "base: mine.yaml starts from this file in turn"),
        ("base: canvas\n", "name: missing; a GPU that starts from a base needs a name of its own"),
        ("base: 3\nname: x\n", "base: got 3, expected the name of a GPU"),
        ("base: canvas\nname: x\nsm: {count: 2}\n", "line 3: sources.sm.count: missing; every number needs a source"),
        (
            f"base: canvas\nsources: {{sm.clck_hz: {SOURCE}}}\n",
            "sources.sm.clck_hz: no such field; did you mean sm.clock_hz?",
        ),
        (
            "base: canvas\nsources: {sm.count: {kind: guess, source: x}}\n",
            "got 'guess', expected one of datasheet, measured",
        ),
        ("base: canvas\nsources: {sm.count: {kind: assumed, source: ''}}\n", "sources.sm.count.source: got ''"),
        (
            "base: canvas\ncompute_capability: 8.0\n",
            'compute_capability: got 8.0, expected text that is not empty; quote it: "8.0"',
        ),
        (
            "base: canvas\nsm: {clock_mhz: 1410}\n",
            "sm.clock_mhz: unknown key; did you mean sm.clock_hz (a number in Hz",
        ),
        ("base: canvas\nsm: [1]\n", "sm: got a list of 1, expected a group of keys"),
        ("- 1\n", "expected the keys name, product, architecture"),
        ("", "expected the keys name, product, architecture"),
        ("a: b: c", "line 1: not valid YAML"),
    ],
)
def test_bad_files_are_refused_in_plain_words(tmp_path: Path, text: str, words: str) -> None:
    """The message has the field, the value and the rule."""
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_gpu(path)
    assert words in str(caught.value)


def test_a_missing_file_is_named() -> None:
    """A path that does not exist is no traceback."""
    assert "nowhere/x.yaml: no such file" == refusal("nowhere/x.yaml")


def test_a_broken_base_is_reported_under_its_own_name(tmp_path: Path) -> None:
    """What is wrong in the base is blamed on the base."""
    base = write(tmp_path, "base: canvas\nname: x\nsm: {count: 0}\n", "broken.yaml")
    assert refusal(write(tmp_path, "base: broken.yaml\n")).startswith(f"{base}: line 3: sm.count: got 0")


def test_all_problems_of_a_file_arrive_together(tmp_path: Path) -> None:
    """A bad value, an unknown key and a missing source are three lines of one error."""
    text = "base: canvas\nsm: {count: 0, clock_mhz: 1}\nlaunch: {stream_ns: 5}\n"
    message = refusal(write(tmp_path, text))
    for words in ("sm.count: got 0", "sm.clock_mhz: unknown key", "sources.launch.stream_ns: missing"):
        assert words in message


@pytest.mark.parametrize("base", ["canvas", "canvass"])
def test_problems_of_text_and_schema_arrive_together(tmp_path: Path, base: str) -> None:
    """A NaN, a negative count, an unknown key, a yes, a duplicate: each once with its line, whether or not the base is
    known."""
    text = """\
name: mine
sm:
  count: -1
  clock_hz: .nan
  clck_hz: 3
memory: {hbm: {size_bytes: yes}}
name: other
sources: {sm.count: {kind: assumed, source: a test}}
"""
    path = write(tmp_path, f"base: {base}\n{text}")
    places = [line.removeprefix(f"{path}: ").split(": ")[:2] for line in refusal(path).splitlines()]
    expected = [
        ["line 4", "sm.count"],
        ["line 5", "sm.clock_hz"],
        ["line 6", "sm.clck_hz"],
        ["line 7", "memory.hbm.size_bytes"],
        ["line 8", "name"],
    ]
    assert expected == [place for place in places if place != ["line 1", "base"]]
    assert (base == "canvass") == (["line 1", "base"] in places)


def test_an_override_replaces_one_field_and_its_source() -> None:
    """`1.5e9` is a number; the rest of the GPU stays as it was."""
    base = load_gpu("h100_sxm5_80gb")
    changed = apply_overrides(base, {"sm.clock_hz": "1.5e9"})
    assert 1.5e9 == changed.sm.clock_hz
    assert "set by the user to 1.5e9" == changed.sources["sm.clock_hz"].source
    assert base.memory == changed.memory
    assert 1.98e9 == base.sm.clock_hz


@pytest.mark.parametrize(
    ("overrides", "tensor_clock_hz"),
    [
        ({"sm.clock_hz": "2.2e9"}, 1.755e9 * 2.2 / 1.98),
        ({"sm.clock_hz": "1.5e9"}, 1.755e9),
        ({"sm.clock_hz": "2.2e9", "sm.tensor_clock_hz": "1.6e9"}, 1.6e9),
    ],
)
def test_a_higher_clock_raises_that_of_tensor_kernels(overrides: dict[str, str], tensor_clock_hz: float) -> None:
    """In proportion to the file's 1.98 and 1.755 GHz, unless it is set too; a lower clock caps it by itself."""
    changed = apply_overrides(load_gpu("h100_sxm5_80gb"), overrides)
    assert tensor_clock_hz == pytest.approx(changed.sm.tensor_clock_hz)


def test_an_override_may_set_null_where_the_field_is_optional() -> None:
    """The L2 of a GPU can be taken away; its SMs cannot."""
    a100 = load_gpu("a100_sxm4_40gb")
    assert apply_overrides(a100, {"memory.l2": "null"}).memory.l2 is None
    with pytest.raises(ConfigError, match=r"sm: got null, expected a group of keys"):
        apply_overrides(a100, {"sm": "null"})


def test_a_gpu_says_what_was_set_over_its_file() -> None:
    """As --set takes it, whatever the order, null included; the last value of a field counts."""
    a100 = load_gpu("a100_sxm4_40gb")
    assert a100.overrides is None
    once = apply_overrides(a100, {"sm.clock_hz": "1.2e9", "memory.l2": "null"})
    assert "memory.l2=null sm.clock_hz=1.2e9" == once.overrides
    assert "memory.l2=null sm.clock_hz=1.3e9" == apply_overrides(once, {"sm.clock_hz": "1.3e9"}).overrides
    assert "sm.tensor_flop_per_clk.fp16=1" == apply_overrides(a100, {"sm.tensor_flop_per_clk.fp16": "1"}).overrides


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "sm.clock_mhz",
            "1410",
            "sm.clock_mhz: unknown field; did you mean sm.clock_hz (a number in Hz greater than 0)?",
        ),
        ("clock_hz", "1e9", "clock_hz: unknown field; did you mean sm.clock_hz?"),
        ("smm.clock_hz", "1e9", "smm.clock_hz: unknown field; did you mean sm.clock_hz?"),
        ("", "1", "unknown field"),
        ("sources.sm.clock_hz", "1", "unknown field"),
        ("memory.l2.size_bytes", "1e6", "canvas has no memory.l2, so nothing in it can be set"),
        ("sm.clock_hz", "fast", "sm.clock_hz: got 'fast', expected a number in Hz greater than 0"),
        ("sm.clock_hz", "-1", "sm.clock_hz: got -1, expected a number in Hz greater than 0"),
        ("sm.clock_hz", "[1", "sm.clock_hz: line 1: not valid YAML"),
        ("sm.clock_hz", "nan", "sm.clock_hz: line 1: got nan, expected a finite number"),
        ("sm.count", "1.5", "sm.count: got 1.5, expected a whole number greater than 0"),
    ],
)
def test_bad_overrides_are_refused_in_plain_words(path: str, value: str, words: str) -> None:
    """Unknown paths come with a suggestion, bad values with type, unit and bound."""
    with pytest.raises(ConfigError) as caught:
        apply_overrides(load_gpu("canvas"), {path: value})
    assert words in str(caught.value)


def test_all_problems_of_overrides_arrive_together() -> None:
    """An unknown path does not hide a bad value."""
    with pytest.raises(ConfigError) as caught:
        apply_overrides(load_gpu("canvas"), {"sm.clock": "1", "sm.count": "0"})
    assert 2 == len(caught.value.problems)


def test_the_schema_knows_base_and_lets_it_stand_for_the_rest() -> None:
    """With a base nothing else is required, in any group; without one every top-level group is."""
    schema = gpu_json_schema()
    assert "base" in schema["properties"]
    assert {"required": ["base"]} in schema["anyOf"]
    assert ["kind", "source"] == schema["$defs"]["Source"]["required"]
    assert all("required" not in group for name, group in schema["$defs"].items() if name != "Source")


@pytest.mark.parametrize(
    ("field", "most"),
    [("sm.count", 10_000), ("sm.max_ctas", 1024), ("sm.max_warps", 1024), ("memory.hbm.channels", 4096)],
)
def test_a_count_that_no_machine_has_is_refused(field: str, most: int) -> None:
    """The simulated GPU holds as many of each, and a billion would fill the memory of the host."""
    a100 = load_gpu("a100_sxm4_40gb")
    assert apply_overrides(a100, {field: str(most)}).overrides == f"{field}={most}"
    for value in (str(most + 1), "1e9"):
        with pytest.raises(ConfigError, match=f"{field}: got .*, expected a whole number .* of at most {most}"):
            apply_overrides(a100, {field: value})
