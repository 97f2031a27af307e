"""Hugging Face model configs: the heads that a model really has, or what the file does not say."""

import json
from pathlib import Path

import pytest

from gpusim.errors import ScenarioError
from gpusim.model_config import model_fields

LLAMA_3_1_8B = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}
OPT_13B_MISTYPED = {"num_attention_heads": 40, "hidden_size": 5140}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "head_dim": 64,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
QWEN_2_7B = {
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "use_sliding_window": False,
}
GEMMA_3_27B = {
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "hidden_size": 5376,
    "head_dim": 128,
    "sliding_window": 1024,
    "model_type": "gemma3_text",
}
FALCON_7B = {"num_attention_heads": 71, "hidden_size": 4544, "multi_query": True, "new_decoder_architecture": False}
FALCON_40B = {"n_head": 128, "hidden_size": 8192, "num_kv_heads": 8, "multi_query": True}
SLIDING = LLAMA_3_1_8B | {"sliding_window": 512}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    return tmp_path


def written(folder: Path, config: object) -> Path:
    """The config as a file."""
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def problems(folder: Path, config: object, *stated: str) -> list[str]:
    """What is said about a config that cannot be used, without its path."""
    path = written(folder, config)
    with pytest.raises(ScenarioError) as caught:
        model_fields(path, stated)
    assert str(path) == caught.value.where
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({"n_head": 12, "n_embd": 768, "n_positions": 1024}, {"heads": 12, "head_dim": 64}, id="GPT-2"),
        pytest.param(LLAMA_3_1_8B, {"heads": 32, "kv_heads": 8, "head_dim": 128}, id="Llama-3.1-8B"),
        pytest.param(LLAMA_3_1_8B | {"head_dim": None}, {"heads": 32, "kv_heads": 8, "head_dim": 128}, id="null"),
        pytest.param(QWEN_2_7B, {"heads": 28, "kv_heads": 4, "head_dim": 128}, id="Qwen2-7B"),
        pytest.param(FALCON_7B, {"heads": 71, "kv_heads": 1, "head_dim": 64}, id="Falcon-7B"),
        pytest.param(
            FALCON_40B | {"new_decoder_architecture": True},
            {"heads": 128, "kv_heads": 8, "head_dim": 64},
            id="Falcon-40B",
        ),
        pytest.param(
            DEEPSEEK_V3, {"heads": 128, "kv_heads": 128, "head_dim": 192, "head_dim_v": 128}, id="DeepSeek-V3"
        ),
        pytest.param(
            {"num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128},
            {"heads": 64, "kv_heads": 4, "head_dim": 192, "head_dim_v": 128},
            id="narrow V without a latent",
        ),
        pytest.param(
            {"hidden_size": 1, "text_config": LLAMA_3_1_8B, "vision_config": {"num_attention_heads": 16}},
            {"heads": 32, "kv_heads": 8, "head_dim": 128},
            id="text_config",
        ),
    ],
)
def test_a_model_has_the_heads_it_is_published_with(folder: Path, config: object, expected: dict[str, int]) -> None:
    """Heads, K/V heads and columns a head as the papers and model cards state them; none of these has a window."""
    assert expected == model_fields(written(folder, config), ())


@pytest.mark.parametrize(
    ("keys", "window"),
    [
        ({}, 512),
        ({"use_sliding_window": True}, 512),
        ({"use_sliding_window": True, "max_window_layers": 0, "num_hidden_layers": 28}, 512),
        ({"layer_types": ["sliding_attention"] * 2}, 512),
        ({"sliding_window": None}, None),
        ({"use_sliding_window": False}, None),
        ({"use_sliding_window": False, "sliding_window_pattern": 6}, None),
        ({"use_sliding_window": True, "max_window_layers": 28, "num_hidden_layers": 28}, None),
        ({"layer_types": ["full_attention"] * 2}, None),
    ],
)
def test_a_window_is_one_that_every_layer_has(folder: Path, keys: dict[str, object], window: int | None) -> None:
    """Of a width of 512; switched off, null, or from a layer on that the model does not have, it is none."""
    assert window == model_fields(written(folder, SLIDING | keys), ()).get("window")


@pytest.mark.parametrize(
    "config",
    [
        GEMMA_3_27B,
        SLIDING | {"layer_types": ["sliding_attention", "full_attention"]},
        SLIDING | {"sliding_window_pattern": 6},
        SLIDING | {"use_sliding_window": True, "max_window_layers": 21, "num_hidden_layers": 28},
        LLAMA_3_1_8B | {"attention_chunk_size": 8192},
        LLAMA_3_1_8B | {"layer_types": ["linear_attention", "full_attention"]},
    ],
)
def test_where_layers_differ_the_user_says_which_is_meant(folder: Path, config: dict[str, object]) -> None:
    """One problem, which a window stated in the workload answers."""
    (said,) = problems(folder, config)
    assert said.startswith("sliding_window: got ")
    assert "full_attention" in said
    assert said.endswith("or state window in the workload")
    assert config["num_attention_heads"] == model_fields(written(folder, config), {"window"})["heads"]


def test_heads_that_do_not_divide_the_hidden_size_are_refused(folder: Path) -> None:
    """5140 / 40 = 128.5 columns a head."""
    (said,) = problems(folder, OPT_13B_MISTYPED)
    assert said.startswith("hidden_size: got 5140, not a multiple of num_attention_heads = 40 (128.5 columns a head); ")
    assert said.endswith("correct one of them, add head_dim, or state head_dim in the workload")
    assert {"heads": 40} == model_fields(written(folder, OPT_13B_MISTYPED), {"head_dim"})


def test_a_latent_expands_to_every_head(folder: Path) -> None:
    """Two K/V heads beside DeepSeek-V3's latent of 512 contradict it."""
    (said,) = problems(folder, DEEPSEEK_V3 | {"num_key_value_heads": 2})
    assert said.startswith("num_key_value_heads: got 2, but the latent")
    assert "all 128 heads" in said


@pytest.mark.parametrize("key", ["qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"])
def test_a_missing_size_of_a_latent_model_is_named(folder: Path, key: str) -> None:
    """A head_dim of 64, which is the RoPE part, does not stand in for it."""
    (said,) = problems(folder, DEEPSEEK_V3 | {key: None})
    assert said.startswith(f"{key}: missing beside other sizes of multi-head latent attention; add it")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: not valid JSON; name a model's config.json"),
        ('{\n"hidden_size": 1,\n}', "line 3: not valid JSON; name a model's config.json"),
        ("[1]", "not a mapping of keys; name a model's config.json"),
        ("[" * 100_000, "not readable as JSON; name a model's config.json"),
        ('{"num_attention_heads": ' + "1" * 5000 + "}", "not readable as JSON; name a model's config.json"),
    ],
)
def test_a_file_of_another_kind_is_told_what_is_wanted(folder: Path, text: str, said: str) -> None:
    """In words of this program, not of its JSON reader."""
    assert [said] == problems(folder, text)


def test_every_missing_and_every_wrong_key_is_named(folder: Path) -> None:
    """An empty file lacks heads and what their width follows from; two wrong values are two problems."""
    heads, head_dim = problems(folder, {})
    assert heads.startswith("num_attention_heads: missing, and n_head too; add one")
    assert head_dim.startswith("head_dim: missing, and what it follows from, hidden_size and num_attention_heads")
    wrong = problems(folder, {"num_attention_heads": 0, "hidden_size": "768"})
    assert ["num_attention_heads: got 0", "hidden_size: got '768'"] == [line.partition(",")[0] for line in wrong]
