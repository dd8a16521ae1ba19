"""Adapters merged into their base write the same, in transformers and in llama.cpp."""

from __future__ import annotations

import dataclasses
import shlex
import shutil

import numpy as np
import pytest
import transformers
from langchain_core.messages import HumanMessage
from safetensors.torch import load_file
from tests.training.writers import tiny

from ragweave.errors import UsageError
from ragweave.trained import ModelCard, write_card
from ragweave.trained.weights import greedy, read_model, read_tokenizer
from ragweave.trained.writers import TextWriter, load_writer
from ragweave.training.rows import read_question_hashes, write_question_hashes
from ragweave.training.writers.causal import RECIPE
from ragweave.training.writers.examples import example
from ragweave.training.writers.export import gguf_commands, merge

ROWS = tiny.silver_rows(4)


@pytest.fixture(scope="module")
def part(bases, tmp_path_factory):
    """A generator that knows its four rows."""
    folder = tmp_path_factory.mktemp("part")
    told = {**tiny.LEARN["causal-lora"], "epochs": 6.0}
    base = bases("causal-lora")
    job = tiny.job(base, folder, "generator", "causal-lora", train=ROWS * 10, **told)
    RECIPE.fit(job)
    shutil.rmtree(folder / "checkpoints")
    card = ModelCard(
        role="generator",
        kind="causal-lora",
        base=str(base),
        settings=dataclasses.asdict(job.settings),
    )
    write_card(folder, card)
    write_question_hashes(folder, ROWS, ["ffff"])
    return folder


@pytest.fixture(scope="module")
def merged(part, tmp_path_factory):
    return merge(part, tmp_path_factory.mktemp("merged"))


def test_the_merged_model_writes_what_the_part_writes(part, merged):
    own = load_writer(part)
    tokenizer = read_tokenizer(merged)
    model = greedy(read_model(merged, causal=True, dtype="float32"), tokenizer).eval()
    other = TextWriter(model, tokenizer, "generator", max_input=200, max_output=16)
    examples = [example("generator", row) for row in ROWS]
    inputs = [one.given for one in examples]
    assert other.write(inputs) == own.write(inputs, 16)
    assert [one.text for one in own.write(inputs)] == [one.target for one in examples]
    pairs = [(one.given, one.target) for one in examples]
    assert other.score(pairs) == pytest.approx(own.score(pairs), abs=1e-4)
    plain = transformers.AutoModelForCausalLM.from_pretrained(merged)
    assert plain.num_parameters() == model.num_parameters()
    assert not (merged / "adapter_config.json").exists()


def test_what_the_part_has_learnt_stays_known(part, merged):
    assert "ffff" in read_question_hashes(merged)
    assert read_question_hashes(merged) == read_question_hashes(part)


def test_the_chat_template_gives_the_form_of_the_training(merged):
    tokenizer = read_tokenizer(merged)
    message = example("generator", ROWS[0]).given.text
    told = tokenizer.apply_chat_template(
        [{"role": "user", "content": message}], add_generation_prompt=True, tokenize=False
    )
    assert told == message + "\nanswer: "


def test_a_gguf_of_the_merged_model_answers_in_our_llama_cpp(merged, tmp_path):
    pytest.importorskip("llama_cpp")
    from ragweave.tools.models.llamacpp import LlamaCppChat

    chat = LlamaCppChat(path=str(write_gguf(merged, tmp_path / "tiny.gguf")), temperature=0.0)
    for row in ROWS:
        one = example("generator", row)
        reply = chat.invoke([HumanMessage(one.given.text)])
        assert reply.text.strip() == one.target


def write_gguf(folder, path):
    """Do what convert_hf_to_gguf.py does, for a tiny Llama with byte-level pairs."""
    gguf = pytest.importorskip("gguf")
    config = transformers.AutoConfig.from_pretrained(folder)
    tokenizer = read_tokenizer(folder)
    tokens = tokenizer.convert_ids_to_tokens(list(range(config.vocab_size)))
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if one in ("<s>", "</s>") else normal for one in tokens])
    merges = tokenizer.backend_tokenizer.model.__getstate__()
    writer.add_token_merges(merges_of(merges))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    writer.add_chat_template(tokenizer.chat_template)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in load_file(folder / "model.safetensors").items():
        values = tensor.float().numpy()
        for part, count in heads.items():
            if part in name:
                values = interleaved(values, count)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def merges_of(state):
    import json

    return [" ".join(pair) for pair in json.loads(state)["merges"]]


def interleaved(values, heads):
    """Order the rows of queries and keys as llama.cpp's rotary embedding wants them."""
    rows, columns = values.shape
    parted = values.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(parted.swapaxes(1, 2).reshape(rows, columns))


def test_the_commands_name_the_folder_quoted(tmp_path):
    folder = tmp_path / "my merged model"
    lines = gguf_commands(folder)
    convert = next(line for line in lines if "convert_hf_to_gguf.py" in line and "--out" in line)
    words = shlex.split(convert)
    assert words[2] == str(folder)
    whole = words[words.index("--outfile") + 1]
    quantize = shlex.split(lines[-1])
    assert quantize[1] == whole
    assert quantize[2].endswith("-Q4_K_M.gguf")


def test_merging_into_a_full_folder_or_from_another_kind_is_refused(part, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="already exists"):
        merge(part, tmp_path)
    other = tmp_path / "judge"
    other.mkdir()
    write_card(other, ModelCard(role="judge", kind="cross-encoder", base="minilm"))
    with pytest.raises(UsageError, match="only causal-lora"):
        merge(other, tmp_path / "out")
