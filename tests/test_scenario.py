"""Scenario files: products of lists, and clear answers to everything that can be wrong in one."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpusim.errors import InputError, ScenarioError, UnknownNameError
from gpusim.implementations import implementations
from gpusim.measured.aliases import alias_table
from gpusim.scenario import Scenario, load_scenario

BASE = """\
name: test
gpu: a100_sxm4_40gb
workload: {batch: 1, heads: 2, seqlen: 64, head_dim: 64}
schedule: flash2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    return tmp_path


def load(folder: Path, text: str) -> Scenario:
    """The scenario that this text describes."""
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_scenario(str(path))


def problems(folder: Path, text: str) -> list[str]:
    """What is said about a bad file, without its path, which has to stand before every line."""
    with pytest.raises(ScenarioError) as caught:
        load(folder, text)
    prefix = f"{folder / 'mine.yaml'}: "
    lines = str(caught.value).splitlines()
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


def without(text: str, line_start: str) -> str:
    """The text without the lines that start like this."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(line_start))


def shapes(scenario: Scenario) -> list[tuple[int, int]]:
    """Batch and query length of every point."""
    return [(point.workload.batch, point.workload.seqlen_q) for point in scenario.points]


def test_one_point(folder: Path) -> None:
    """No list anywhere: one point, `seqlen` sets both lengths, `kv_heads` and `head_dim_v` follow."""
    (point,) = load(folder, BASE).points
    workload = point.workload
    assert (64, 64, 2, 64) == (workload.seqlen_q, workload.seqlen_k, workload.kv_heads, workload.head_dim_v)
    assert ("event", "cold") == (point.conditions.timing, point.conditions.cache)


def test_a_sweep_is_every_combination_first_written_slowest(folder: Path) -> None:
    """batch × seqlen in the file's order."""
    text = BASE + "sweep: {batch: [2, 1], seqlen: [64, 32]}\n"
    assert [(2, 64), (2, 32), (1, 64), (1, 32)] == shapes(load(folder, text))


def test_any_field_may_be_a_list(folder: Path) -> None:
    """A list in `workload` or `conditions` varies like one in `sweep`."""
    text = BASE.replace("seqlen: 64", "seqlen: [64, 32]") + "conditions: {cache: [cold, warm]}\n"
    points = load(folder, text).points
    expected = [(64, "cold"), (64, "warm"), (32, "cold"), (32, "warm")]
    assert expected == [(point.workload.seqlen_q, point.conditions.cache) for point in points]


def test_zip_varies_fields_together(folder: Path) -> None:
    """Batch halves as seqlen doubles."""
    text = BASE + "zip: {batch: [4, 2, 1], seqlen: [32, 64, 128]}\n"
    assert [(4, 32), (2, 64), (1, 128)] == shapes(load(folder, text))


def test_zip_beside_a_sweep_is_a_product(folder: Path) -> None:
    """Each pair of the zip for each head dim."""
    text = BASE + "sweep: {head_dim: [32, 64]}\nzip: {batch: [2, 1], seqlen: [32, 64]}\n"
    points = load(folder, text).points
    expected = [(32, 2), (32, 1), (64, 2), (64, 1)]
    assert expected == [(point.workload.head_dim, point.workload.batch) for point in points]


def test_gpus_then_schedules_then_shapes(folder: Path) -> None:
    """Points keep the file's order: GPU slowest, shape fastest."""
    text = BASE.replace("a100_sxm4_40gb", "[a100_sxm4_40gb, canvas]").replace("flash2", "[flash2, naive]")
    points = load(folder, text + "sweep: {seqlen: [8, 4]}\n").points
    expected = [(gpu, name, n) for gpu in ("a100_sxm4_40gb", "canvas") for name in ("flash2", "naive") for n in (8, 4)]
    assert expected == [(point.spec.name, point.request.name, point.workload.seqlen_q) for point in points]


def test_a_schedule_may_be_a_mapping_in_a_list(folder: Path) -> None:
    """Names, versions and choices side by side."""
    text = BASE.replace("flash2", "[flash1@2022-05, {name: flash2, tile_q: 16}]")
    labels = [(p.request.label, p.request.version) for p in load(folder, text).points]
    assert [("flash1", "2022-05"), ("custom", None)] == labels


def test_query_and_key_lengths_may_differ(folder: Path) -> None:
    """seqlen_q and seqlen_k by themselves, or one of them over `seqlen`."""
    own = BASE.replace("seqlen: 64", "seqlen_q: 1, seqlen_k: 500")
    over = BASE.replace("seqlen: 64", "seqlen: 500, seqlen_q: 1")
    for text in (own, over):
        (point,) = load(folder, text).points
        assert (1, 500) == (point.workload.seqlen_q, point.workload.seqlen_k)


def test_1_5e3_is_a_number(folder: Path) -> None:
    """PyYAML reads 1.5e9 as text; here it is a number, whole where a whole number is asked."""
    text = BASE.replace("seqlen: 64", "seqlen: 1e3") + "conditions: {sm_clock_mhz: 1.2e3}\n"
    (point,) = load(folder, text).points
    assert (1000, 1200.0) == (point.workload.seqlen_q, point.conditions.sm_clock_mhz)


def test_fields_of_the_gpu_can_be_overridden() -> None:
    """--set sm.clock_hz=1.5e9 reaches every point's GPU, and --gpu replaces the file's."""
    scenario = load_scenario("canvas_bytes", gpus=["a100_sxm4_40gb"], overrides={"sm.clock_hz": "1.5e9"})
    assert {("a100_sxm4_40gb", 1.5e9)} == {(point.spec.name, point.spec.sm.clock_hz) for point in scenario.points}


def test_a_shipped_name_and_its_path_are_the_same() -> None:
    """Without .yaml it is looked up among the shipped scenarios."""
    assert "canvas_bytes" == load_scenario("canvas_bytes").name


def test_an_unknown_scenario_lists_the_shipped_ones() -> None:
    """Those of attention and of single kernels."""
    with pytest.raises(
        UnknownNameError, match="'nope' is not known; choose one of: canvas_bytes, flash_forward_h100, gemm_shapes"
    ) as caught:
        load_scenario("nope")
    assert {"seqlen_sweep_a100", "stream_occupancy"} <= set(caught.value.known)


def test_a_missing_file_is_said_to_be_missing(folder: Path) -> None:
    """A path that ends in .yaml is a file."""
    with pytest.raises(ScenarioError, match=r"absent\.yaml: no such file"):
        load_scenario(str(folder / "absent.yaml"))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("0", "seqlen: got 0, expected a whole number greater than 0"),
        ("-4", "seqlen: got -4, expected a whole number greater than 0"),
        (".nan", "line 3: workload.seqlen: got .nan, expected a finite number"),
        ("many", "seqlen: got 'many', expected a whole number greater than 0"),
        ("64.5", "seqlen: got 64.5, expected a whole number greater than 0"),
        ("true", "seqlen: got true, expected a whole number greater than 0"),
        ("null", "seqlen: got null, expected a whole number greater than 0"),
        ("[]", "seqlen: the list is empty; give at least one value"),
    ],
)
def test_a_bad_length_is_refused_once(folder: Path, written: str, said: str) -> None:
    """`seqlen` stands for two fields; the user wrote one and reads about one."""
    assert [said] == problems(folder, BASE.replace("seqlen: 64", f"seqlen: {written}"))


def test_a_length_with_a_unit_is_told_to_drop_it(folder: Path) -> None:
    """A length of "4k tokens" is no number."""
    (said,) = problems(folder, BASE.replace("seqlen: 64", "seqlen: 4k tokens"))
    assert "got '4k tokens'" in said
    assert "write the number alone: no unit" in said


def test_every_bad_value_of_a_list_is_named(folder: Path) -> None:
    """0 and x of three lengths."""
    said = problems(folder, BASE.replace("seqlen: 64", "seqlen: [64, 0, x]"))
    assert ["seqlen: got 0", "seqlen: got 'x'"] == [line.partition(", expected")[0] for line in said]


def test_a_bad_head_dim_is_refused_once(folder: Path) -> None:
    """`head_dim_v` follows `head_dim` and was not written: it is not complained about."""
    said = problems(folder, BASE.replace("head_dim: 64", "head_dim: 0"))
    assert ["head_dim: got 0, expected a whole number greater than 0"] == said


def test_a_missing_length_is_called_by_a_name_users_write(folder: Path) -> None:
    """The message offers `seqlen`."""
    assert any("seqlen:" in line or "seqlen " in line for line in problems(folder, BASE.replace("seqlen: 64, ", "")))


@pytest.mark.parametrize("group", ["workload", "conditions", "sweep", "zip"])
def test_an_unknown_field_lists_the_known_ones(folder: Path, group: str) -> None:
    """In whichever group it stands."""
    value = "[1]" if group in ("sweep", "zip") else "1"
    text = without(BASE, "workload") if group == "workload" else BASE
    (said,) = [line for line in problems(folder, f"{text}{group}: {{headz: {value}}}\n") if "headz" in line]
    known = "timing, cache, " if group == "conditions" else "batch, heads, kv_heads, seqlen, "
    assert said.startswith(f"{group}.headz: unknown key; known are {known}")


def test_an_unknown_key_of_the_file_suggests_the_near_one(folder: Path) -> None:
    """`swep` is probably `sweep`."""
    (said,) = problems(folder, BASE + "swep: {seqlen: [1]}\n")
    assert said.startswith("swep: unknown key; did you mean sweep")
    assert "None" not in said


def test_a_duplicate_key_is_refused_with_both_lines(folder: Path) -> None:
    """YAML would silently keep the last."""
    assert ["line 5: name: appears twice, first on line 1; keep one"] == problems(folder, BASE + "name: again\n")


@pytest.mark.parametrize(("field", "written"), [("gpu", "a100_sxm4_40gb"), ("schedule", "flash2")])
def test_an_empty_list_of_gpus_or_schedules_is_refused(folder: Path, field: str, written: str) -> None:
    """There would be nothing to run."""
    said = problems(folder, BASE.replace(f"{field}: {written}", f"{field}: []"))
    assert [f"{field}: the list is empty; name at least one"] == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpu: a100_sxm4_40gb", "gpu: [canvas, canvas]", "gpu: canvas is given 2 times; keep one"),
        ("schedule: flash2", "schedule: [flash2, naive, flash2]", "schedule: flash2 is given 2 times; keep one"),
        ("schedule: flash2", "schedule: [flash3, flash3@2025]", "schedule: flash3@2025 is given 2 times; keep one"),
        (
            "schedule: flash2",
            "schedule: [{name: flash2, warps: 4, stages: 1}, {stages: 1, name: flash2, warps: 4.0}]",
            "schedule: flash2 with stages 1, warps 4 is given 2 times; keep one",
        ),
        ("seqlen: 64", "seqlen: [64, 128, 64.0]", "seqlen: 64 is given 2 times; keep one"),
        ("seqlen: 64", "seqlen: 64, causal: [true, true]", "causal: true is given 2 times; keep one"),
        ("seqlen: 64", "seqlen: 64, cache: [cold, cold]", "cache: cold is given 2 times; keep one"),
        (
            "schedule: flash2",
            "schedule: flash2\nsweep: {dtype: [fp16, fp16]}",
            "dtype: fp16 is given 2 times; keep one",
        ),
        (
            "schedule: flash2",
            "schedule: flash2\nzip: {batch: [2, 1, 2], seqlen: [4, 8, 4]}",
            "zip: batch 2, seqlen 4 is given 2 times; keep one",
        ),
        (
            "schedule: flash2",
            "schedule: flash2\nmeasured: [fa1_paper_a100_fwd, fa1_paper_a100_fwd]",
            "measured: fa1_paper_a100_fwd is given 2 times; keep one",
        ),
    ],
)
def test_what_a_list_holds_twice_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    """It would run the same points again; 64 and 64.0 are one length, and a bare name means its default version."""
    assert [said] == problems(folder, BASE.replace(old, new))


def test_a_value_may_return_in_a_zip_beside_another(folder: Path) -> None:
    """Each pair is a point of its own."""
    scenario = load(
        folder,
        without(BASE, "workload")
        + "workload: {heads: 1, head_dim: 64}\nzip: {batch: [1, 1, 2], seqlen: [8, 16, 16]}\n",
    )
    assert [(1, 8), (1, 16), (2, 16)] == shapes(scenario)


def test_an_empty_sweep_is_refused(folder: Path) -> None:
    """A list without values has no points."""
    assert ["seqlen: the list is empty; give at least one value"] == problems(folder, BASE + "sweep: {seqlen: []}\n")


def test_zip_needs_lists_of_one_length(folder: Path) -> None:
    """Two batches and one length cannot go together."""
    said = problems(folder, BASE + "zip: {batch: [1, 2], seqlen: [64]}\n")
    assert ["zip: lists that vary together need one length above zero; batch has 2, seqlen has 1"] == said


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text\n"])
def test_a_file_that_is_no_mapping_is_refused(folder: Path, text: str) -> None:
    """Empty, a list, a sentence."""
    assert ["expected a mapping with name, gpu, workload, schedule"] == problems(folder, text)


@pytest.mark.parametrize("field", ["name", "gpu", "schedule"])
def test_a_missing_group_is_named(folder: Path, field: str) -> None:
    """What every scenario needs."""
    assert any(line.startswith(f"{field}: missing") for line in problems(folder, without(BASE, field)))


def test_heads_that_kv_heads_do_not_divide_are_refused(folder: Path) -> None:
    """Both numbers are stated."""
    said = problems(folder, BASE.replace("heads: 2", "heads: 6, kv_heads: 4"))
    assert any("heads = 6 is not a multiple of kv_heads = 4" in line for line in said)


def test_an_unknown_schedule_is_said_once_after_the_file(folder: Path) -> None:
    """The file's name stands once before the message."""
    said = problems(folder, BASE.replace("flash2", "flash9"))
    assert [f"schedule: 'flash9' is not known; choose one of: {', '.join(implementations())}"] == said


def test_all_problems_of_a_file_arrive_together(folder: Path) -> None:
    """Two unknown GPUs, a schedule, a key, two values, a timing: one error."""
    text = """\
name: test
gpu: [a100, canvas, b200]
workload: {batch: 0, heads: 2, seqlen: 64, head_dim: 64, dropout: 1.5, head: 3}
conditions: {timing: stopwatch}
schedule: [flash2, flash9]
"""
    said = "\n".join(problems(folder, text))
    for wrong in (
        "'a100'",
        "'b200'",
        "'flash9'",
        "head: unknown key",
        "batch: got 0",
        "dropout: got 1.5",
        "'stopwatch'",
    ):
        assert wrong in said


@pytest.mark.parametrize("value", ["fp8", "half"])
def test_an_unknown_format_lists_the_known_ones(folder: Path, value: str) -> None:
    """fp32, fp16 and bf16 exist."""
    (said,) = problems(folder, BASE.replace("heads: 2", f"heads: 2, dtype: {value}"))
    assert said.startswith(f"dtype: got '{value}'")
    assert all(known in said for known in ("fp32", "fp16", "bf16"))


def model_file(folder: Path, config: Mapping[str, object]) -> str:
    """A scenario that takes its heads from this model config."""
    (folder / "config.json").write_text(json.dumps(config))
    return without(BASE, "workload") + f"workload: {{batch: 1, seqlen: 64}}\nmodel: {folder / 'config.json'}\n"


def test_a_model_config_gives_heads_and_head_dim(folder: Path) -> None:
    """32 heads of hidden size 4,096 are 128 columns each; 8 K/V heads and a window come along."""
    config = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, "sliding_window": 512}
    (point,) = load(folder, model_file(folder, config)).points
    workload = point.workload
    assert (32, 8, 128, 512) == (workload.heads, workload.kv_heads, workload.head_dim, workload.window)


def test_a_stated_head_dim_wins_over_the_hidden_size(folder: Path) -> None:
    """Some models have head_dim × heads ≠ hidden_size."""
    config = {"num_attention_heads": 16, "hidden_size": 3072, "head_dim": 256, "sliding_window": None}
    (point,) = load(folder, model_file(folder, config)).points
    assert (16, 16, 256, None) == (
        point.workload.heads,
        point.workload.kv_heads,
        point.workload.head_dim,
        point.workload.window,
    )


def test_a_model_may_have_narrower_values_than_keys(folder: Path) -> None:
    """DeepSeek-V3: 128 + 64 columns of Q and K, 128 of V, for each of 128 heads."""
    sizes = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim": 64}
    (point,) = load(folder, model_file(folder, {"num_attention_heads": 128, "hidden_size": 7168} | sizes)).points
    workload = point.workload
    assert (128, 128, 192, 128) == (workload.heads, workload.kv_heads, workload.head_dim, workload.head_dim_v)


def test_what_the_scenario_states_wins_over_the_model(folder: Path) -> None:
    """The window of 512 is off; a head dim that the file leaves open is stated, here as a sweep."""
    config = {"num_attention_heads": 40, "hidden_size": 5140, "sliding_window": 512}
    text = (
        model_file(folder, config).replace("seqlen: 64", "seqlen: 64, window: null") + "sweep: {head_dim: [64, 128]}\n"
    )
    found = [point.workload for point in load(folder, text).points]
    assert [(40, 64, None), (40, 128, None)] == [(shape.heads, shape.head_dim, shape.window) for shape in found]


@pytest.mark.parametrize("config", [{"hidden_size": 64, "head_dim": 8}, {"num_attention_heads": 0, "hidden_size": 64}])
def test_a_file_that_is_no_model_config_says_what_it_lacks(folder: Path, config: Mapping[str, object]) -> None:
    """One problem with the file's name; that the workload then has no heads is not said again."""
    (said,) = problems(folder, model_file(folder, config))
    assert said.startswith(f"model: {folder}/config.json: num_attention_heads: ")


def test_a_missing_model_config_is_said_to_be_missing(folder: Path) -> None:
    """With its path."""
    assert f"model: {folder}/none.json: no such file" in problems(folder, BASE + f"model: {folder}/none.json\n")


def test_a_problem_of_a_gpu_file_names_that_file(folder: Path) -> None:
    """A GPU given by path is checked like a shipped one, and its problems come with its name."""
    (folder / "gpu.yaml").write_text("base: canvas\nname: mine\nsm: {clock: 1e9}\n")
    with pytest.raises(InputError) as caught:
        load(folder, BASE.replace("a100_sxm4_40gb", str(folder / "gpu.yaml")))
    assert f"{folder / 'gpu.yaml'}: " in str(caught.value)
    assert "sm.clock" in str(caught.value)


def test_problems_of_text_and_schema_arrive_together(folder: Path) -> None:
    """A duplicate key, a yes, a NaN, unknown keys and a negative size: each once, with its line or field."""
    text = """\
name: test
gpu: canvas
workload:
  batch: -1
  heads: 2
  heads: 3
  causal: yes
  seqlen: .nan
  head_dim: 64
  hedd: 1
schedule: flash2
swep: {batch: [1]}
"""
    expected = [
        "line 6: workload.heads: appears twice",
        "line 7: workload.causal: got yes",
        "line 8: workload.seqlen: got .nan",
        "swep: unknown key",
        "workload.hedd: unknown key",
        "batch: got -1",
    ]
    said = problems(folder, text)
    assert len(expected) == len(said)
    assert all(line.startswith(words) for line, words in zip(said, expected, strict=True)), said


def test_what_cannot_be_read_in_a_list_leaves_the_rest_checked(folder: Path) -> None:
    """Entries of gpu, schedule and sweep beside one that is no value."""
    text = BASE.replace("a100_sxm4_40gb", "[canvass, yes, 3]")
    text = text.replace("flash2", "[flash9, no, {name: flash2, tile_q: .nan, tile_kv: 0}, {name: on, tile_q: 0}]")
    said = problems(folder, text + "sweep: {batch: [0, .inf], seqlen: 8}\n")
    expected = [
        "line 2: gpu[1]: got yes",
        "line 4: schedule[1]: got no",
        "line 4: schedule[2].tile_q: got .nan",
        "line 4: schedule[3].name: got on",
        "line 5: sweep.batch[1]: got .inf",
        "gpu[2]: got 3, expected text",
        "sweep.seqlen: got 8, expected a list",
        "gpu: 'canvass' is not known",
        "schedule: 'flash9' is not known",
        "schedule flash2, tile_kv: got 0",
        "batch: got 0",
    ]
    assert len(expected) == len(said)
    assert all(line.startswith(words) for line, words in zip(said, expected, strict=True)), said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BASE.replace("workload: {", "wrkload: {"), ["wrkload: unknown key; did you mean workload"]),
        (
            BASE.replace("schedule:", "schedules:"),
            ["schedule: missing; the file must state it", "schedules: unknown key; did you mean schedule?"],
        ),
        (BASE.replace("workload: {", "sweep: yes\nwrkload: {"), ["line 3: sweep: got yes", "wrkload: unknown key"]),
        (without(BASE, "workload") + "workload: yes\n", ["line 4: workload: got yes"]),
        (without(BASE, "workload") + "workload: 3\n", ["workload: got 3, expected a group of keys"]),
        (BASE + "zip: {batch: 4, seqlen: [1]}\n", ["zip.batch: got 4, expected a list"]),
        (
            BASE.replace("seqlen: 64, ", "") + "zip: {seqlen: [1, yes], batch: 3}\n",
            ["line 5: zip.seqlen[1]", "zip.batch"],
        ),
        (BASE + "model: yes\n", ["line 5: model: got yes"]),
        (BASE + "measured: yes\n", ["line 5: measured: got yes"]),
        (BASE.replace("a100_sxm4_40gb", "3"), ["gpu: got 3, expected a name or a list of names"]),
        (BASE.replace("flash2", "yes"), ["line 4: schedule: got yes"]),
        ("yes\n", ["line 1: got yes"]),
    ],
)
def test_fields_of_an_unreadable_group_are_not_called_missing(folder: Path, text: str, said: list[str]) -> None:
    """They may be there, in what could not be read: one mistake is one problem."""
    found = problems(folder, text)
    assert len(said) == len(found), found
    assert all(line.startswith(words) for line, words in zip(found, said, strict=True)), found


@pytest.mark.parametrize("cwd", ["beside", "elsewhere"])
def test_relative_paths_start_beside_the_scenario(folder: Path, monkeypatch: pytest.MonkeyPatch, cwd: str) -> None:
    """A GPU file, a measured file and a model config lie in the scenario's folder, wherever the command is run."""
    (folder / "gpu.yaml").write_text("base: canvas\nname: mine\n")
    (folder / "rows.csv").write_text("gpu,kernel,latency_ms\n")
    text = model_file(folder, {"num_attention_heads": 3, "head_dim": 4}).replace(f"{folder}/", "")
    text = text.replace("a100_sxm4_40gb", "gpu.yaml") + "measured: [rows.csv, fa1_paper_a100_fwd]\n"
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder if cwd == "beside" else folder / "elsewhere")
    scenario = load(folder, text)
    (point,) = scenario.points
    assert ("mine", 3) == (point.spec.name, point.workload.heads)
    assert (str(folder / "rows.csv"), "fa1_paper_a100_fwd") == scenario.measured


def test_relative_paths_are_then_looked_up_from_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file beside the scenario wins; a GPU of the command line is never beside it."""
    (folder / "there").mkdir()
    monkeypatch.chdir(folder)
    for name in ("here.yaml", "both.yaml"):
        Path(name).write_text("base: canvas\nname: working_folder\n")
    (folder / "there" / "both.yaml").write_text("base: canvas\nname: beside\n")
    text = BASE.replace("a100_sxm4_40gb", "[here.yaml, both.yaml]")
    assert ["working_folder", "beside"] == [point.spec.name for point in load(folder / "there", text).points]
    (point,) = load_scenario("there/mine.yaml", gpus=["both.yaml"]).points
    assert "working_folder" == point.spec.name


def test_the_workload_may_hold_the_timing(folder: Path) -> None:
    """A point is one flat list of fields."""
    text = (
        BASE.replace("seqlen: 64", "seqlen: 64, timing: ncu, cache: [cold, warm]") + "conditions: {stack: fa1_paper}\n"
    )
    found = [point.conditions for point in load(folder, text).points]
    assert [("ncu", "cold", "fa1_paper"), ("ncu", "warm", "fa1_paper")] == [(c.timing, c.cache, c.stack) for c in found]


@pytest.mark.parametrize("value", ["cold", "[cold, warm]"])
def test_a_timing_field_stands_in_one_group(folder: Path, value: str) -> None:
    """In workload and in conditions one of them would be dropped unseen."""
    text = BASE.replace("seqlen: 64", f"seqlen: 64, cache: {value}") + "conditions: {cache: warm}\n"
    assert ["cache: stands in workload and in conditions; keep one"] == problems(folder, text)
    text = text.replace("cache: warm}", "cache: [warm]}").replace("cache: cold", "cache: [cold]")
    assert ["cache: varies in workload and in conditions; keep one"] == problems(folder, text)


@pytest.mark.parametrize("written", ["typo", "[fa1_paper, typo]"])
def test_an_unknown_stack_lists_the_known_ones(folder: Path, written: str) -> None:
    """Also that one which only chooses rows of a table, flash_attn_bench."""
    (said,) = problems(folder, BASE + f"conditions: {{stack: {written}}}\n")
    assert said.startswith("stack: 'typo' is not known; choose one of: ")
    assert {"fa1_paper", "flash_attn_bench", "vllm_graph"} <= set(said.rpartition(": ")[2].split(", "))


def test_every_stack_of_the_measured_tables_is_known(folder: Path) -> None:
    """A row's conditions can be written as a scenario."""
    table = alias_table()
    named = {entry.stack for entry in (*table.sources, *table.kernels.values()) if entry.stack is not None}
    text = BASE + f"conditions: {{stack: [{', '.join(sorted(named))}]}}\n"
    assert sorted(named) == [point.conditions.stack for point in load(folder, text).points]


def test_a_field_varies_in_one_group_only(folder: Path) -> None:
    """Two lists of lengths would run some points several times."""
    text = BASE.replace("seqlen: 64", "seqlen: [64, 128]") + "sweep: {seqlen: [8, 16]}\n"
    assert ["seqlen: varies in workload and in sweep; keep one"] == problems(folder, text)


def test_conditions_do_not_take_fields_of_the_workload(folder: Path) -> None:
    """`heads` under conditions would override the workload unseen."""
    (said,) = problems(folder, BASE + "conditions: {heads: 3}\n")
    assert said.startswith("conditions.heads: unknown key; known are timing, cache, sm_clock_mhz")


def test_a_mask_called_causal_is_refused(folder: Path) -> None:
    """Taken as a name it would compute no mask at all; the message says which field masks."""
    said = problems(folder, BASE.replace("head_dim: 64", "head_dim: 64, mask: causal"))
    assert any("a causal mask has a field of its own; write causal: true" in line for line in said)


PRODUCT = """\
name: test
gpu: a100_sxm4_40gb
workload: {m: 128, n: [64, 256], k: 64}
schedule: torch_matmul
"""


def test_the_schedule_says_what_kind_of_workload_it_is(folder: Path) -> None:
    """A matrix product has sides and no heads; its fields vary like any other."""
    points = load(folder, PRODUCT + "sweep: {batch: [1, 8], cache: [cold, warm]}\n").points
    assert {"GemmWorkload"} == {type(point.workload).__name__ for point in points}
    assert [(n, batch, cache) for n in (64, 256) for batch in (1, 8) for cache in ("cold", "warm")] == [
        (point.workload.n, point.workload.batch, point.conditions.cache) for point in points
    ]


@pytest.mark.parametrize(
    ("schedule", "workload"),
    [
        ("torch_softmax", "{rows: 128, cols: 64, dtype: fp32}"),
        ("torch_transpose_copy", "{rows: 128, cols: 64}"),
        ("stream", "{elements: 1e6, loads: 2, stores: 1, threads_per_cta: 256, ctas_per_sm: 4}"),
        ("pointer_chase", "{footprint_bytes: 1e6, hops: 100, timing: ncu}"),
        ("cache_read", "{footprint_bytes: 1e6, part_bytes: 65536, rounds: 2}"),
        ("{name: torch_matmul, tile_m: 64, tile_n: 64}", "{m: 128, n: 64, k: 64}"),
    ],
)
def test_every_kind_can_be_written(folder: Path, schedule: str, workload: str) -> None:
    """One point each; lists of schedules of one kind are fine."""
    text = f"name: test\ngpu: a100_sxm4_40gb\nworkload: {workload}\nschedule: {schedule}\n"
    assert 1 == len(load(folder, text).points)


def test_schedules_of_one_scenario_compute_one_kind(folder: Path) -> None:
    """The message says which takes what; the fields that are there say what was meant, and get no second message."""
    (said,) = problems(folder, PRODUCT.replace("torch_matmul", "[flash1, torch_matmul, flash2]"))
    assert said == (
        "schedule: all must compute one kind of workload, but these differ: "
        "flash1, flash2: attention (batch, heads, seqlen, head_dim); torch_matmul: a matrix product (m, n, k); keep one"
    )
    (said,) = problems(folder, BASE.replace("flash2", "[flash2, stream]"))
    assert "stream: a stream (elements, loads, stores)" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("k: 64", "k: 64, heads: 2", "workload.heads: unknown key; known are batch, m, n, k, dtype, timing, cache"),
        ("k: 64", "k: 64, seqlen: 64", "workload.seqlen: unknown key"),
        ("k: 64", "k: 64, dtpe: fp32", "workload.dtpe: unknown key; known are batch, m, n, k, dtype"),
        ("k: 64", "k: 64, dtpe: fp32", "did you mean dtype?"),
        ("k: 64", "k: 0", "k: got 0, expected a whole number greater than 0"),
        (", k: 64", "", "k: missing, expected a whole number greater than 0"),
        ("k: 64", "k: 64, dtype: fp8", "dtype: got 'fp8', expected one of fp32, fp16, bf16"),
    ],
)
def test_fields_are_those_of_the_kind(folder: Path, old: str, new: str, said: str) -> None:
    """One problem, in the words of a matrix product."""
    (problem,) = problems(folder, PRODUCT.replace(old, new))
    assert said in problem


def test_a_stream_that_moves_nothing_is_refused(folder: Path) -> None:
    """Neither loads nor stores."""
    text = PRODUCT.replace("{m: 128, n: [64, 256], k: 64}", "{elements: 1, loads: 0, stores: 0}")
    (said,) = problems(folder, text.replace("torch_matmul", "stream"))
    assert "loads = 0 and stores = 0 move nothing; raise one of them" in said


def test_an_unknown_schedule_hides_no_fields(folder: Path) -> None:
    """What is written says that a product was meant, so its sides are no unknown keys."""
    (said,) = problems(folder, PRODUCT.replace("torch_matmul", "torch_matmull"))
    assert "'torch_matmull' is not known" in said


def test_a_model_config_belongs_to_attention(folder: Path) -> None:
    """It states heads; a product has none."""
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 2, "hidden_size": 128}))
    (said,) = problems(folder, PRODUCT + "model: config.json\n")
    assert "model: it states heads, but the schedules compute a matrix product; leave it out" == said
