"""Loading parts that write text: tokens counted, threads safe, nothing run, faults named."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from tests.training.writers import tiny  # noqa: E402

from ragweave.errors import ModelError, UsageError  # noqa: E402
from ragweave.tools.scorers.huggingface import find_base_model, quiet  # noqa: E402
from ragweave.trained import ModelCard, write_card  # noqa: E402
from ragweave.trained.forms import KNOWN, PartInput, judge_input  # noqa: E402
from ragweave.trained.weights import adapters_over, read_model, read_tokenizer  # noqa: E402
from ragweave.trained.writers import load_writer  # noqa: E402

INPUTS = [judge_input(row["question"], row["draft"] * 3) for row in tiny.judge_rows(5)]


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def causal_part(folder, base, card=(), **config):
    """A part whose adapters are random, and no adapter is nothing."""
    tiny.causal_base(base, **config)
    folder.mkdir()
    torch.manual_seed(3)
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear")
    model = adapters_over(read_model(base, causal=True, dtype="float32"), config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    with quiet():
        model.save_pretrained(folder, save_embedding_layers=False)
    read_tokenizer(base).save_pretrained(folder)
    room = {"max_input": 200, "max_output": 16}
    told = {"role": "judge", "kind": "causal-lora", "base": str(base), "settings": room}
    write_card(folder, ModelCard(**{**told, **dict(card)}))
    return folder


def seq2seq_part(folder, **card):
    tiny.seq2seq_base(folder)
    told = {"role": "judge", "kind": "seq2seq", "base": "tiny", "settings": {}}
    write_card(folder, ModelCard(**{**told, **card}))
    return folder


@pytest.fixture(scope="module", params=["causal-lora", "seq2seq"])
def part(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("part")
    if request.param == "seq2seq":
        return seq2seq_part(root / "part")
    return causal_part(root / "part", root / "base")


@pytest.fixture(scope="module")
def writer(part):
    return load_writer(part, "judge", batch=2)


def test_tokens_are_counted_as_the_model_reads_and_chooses_them(writer):
    written = writer.write(INPUTS, 7)
    lead = "\nRetrieval Necessity Judgment Output: " if writer.causal else ""
    for one, given in zip(written, INPUTS, strict=True):
        assert one.input_tokens == len(writer.tokenizer(given.text + lead)["input_ids"])
        assert 1 <= one.output_tokens <= 7
        assert one.finished or one.output_tokens == 7
        text = writer.tokenizer(one.text, add_special_tokens=False)["input_ids"]
        assert one.text or one.output_tokens - one.finished <= len(text) + 7


def test_greedy_output_is_the_likeliest_token_again_and_again(writer):
    """By definition, one token at a time, without the library's generate."""
    lead = "\nRetrieval Necessity Judgment Output: " if writer.causal else ""
    ids = torch.tensor([writer.tokenizer(INPUTS[0].text + lead)["input_ids"]])
    new = [] if writer.causal else [0]
    for _ in range(5):
        with torch.no_grad():
            if writer.causal:
                logits = writer.model(torch.cat([ids, torch.tensor([new]).long()], 1)).logits
            else:
                logits = writer.model(input_ids=ids, decoder_input_ids=torch.tensor([new])).logits
        new.append(int(logits[0, -1].argmax()))
        if new[-1] == writer.tokenizer.eos_token_id:
            break
    assert writer.write([INPUTS[0]], 5)[0].text == writer.decode(new)


def test_batches_and_threads_change_nothing(writer, part):
    alone = [writer.write([one], 6)[0] for one in INPUTS]
    assert writer.write(INPUTS, 6) == alone
    assert load_writer(part, batch=5).write(INPUTS, 6) == alone
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda one: writer.write([one], 6)[0], INPUTS * 2)) == alone * 2
    assert writer.write([]) == []


def test_a_long_draft_loses_its_end_and_the_question_stays(tmp_path):
    folder = seq2seq_part(tmp_path / "part", settings={"max_input": 60, "max_output": 4})
    writer = load_writer(folder)
    long = judge_input("capital of Italy?", "I am not sure. " * 40)
    (one,) = writer.write([long])
    assert one.cut
    assert 40 < one.input_tokens <= 60
    assert one.output_tokens <= 4
    assert not writer.write([judge_input("capital?", "Rome")])[0].cut
    with pytest.raises(UsageError, match="question alone"):
        writer.write([PartInput("What " * 200, "")])
    with pytest.raises(UsageError, match="max_new_tokens"):
        writer.write(INPUTS, 0)


def test_a_calls_own_limit_leaves_the_input_what_places_are_left(tmp_path):
    """The model has 256 places: more of them for the output are fewer for the input."""
    card = {"settings": {"max_input": 230, "max_output": 16}}
    folder = causal_part(tmp_path / "part", tmp_path / "base", card, max_position_embeddings=256)
    writer = load_writer(folder)
    long = judge_input("capital of Italy?", "I am not sure. " * 90)
    for limit, room in ((None, 230), (10, 230), (100, 156), (150, 106)):
        (one,) = writer.write([long], limit)
        assert one.cut
        assert room - 20 < one.input_tokens <= room
        assert one.output_tokens <= (limit or 16)
    with pytest.raises(UsageError, match="question alone is longer than the 6 tokens"):
        writer.write([long], 250)
    with pytest.raises(UsageError, match="256 tokens of output leave no room"):
        writer.write([long], 256)


class Alone:
    """A tokenizer that two threads must not use at once."""

    def __init__(self, inner):
        self.inner, self.users, self.most = inner, 0, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def _used(self, use, *given, **more):
        self.users += 1
        self.most = max(self.most, self.users)
        time.sleep(0.002)
        try:
            return use(*given, **more)
        finally:
            self.users -= 1

    def __call__(self, *given, **more):
        return self._used(self.inner, *given, **more)

    def decode(self, *given, **more):
        return self._used(self.inner.decode, *given, **more)


@pytest.mark.parametrize(
    "use",
    [
        lambda writer: writer.write(INPUTS[:2], 2),
        lambda writer: writer.score([(INPUTS[0], KNOWN)]),
        lambda writer: writer.decode([5, 6]),
    ],
)
def test_threads_take_turns_at_the_tokenizer_too(writer, monkeypatch, use):
    monkeypatch.setattr(writer, "tokenizer", Alone(writer.tokenizer))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: use(writer), range(8)))
    assert writer.tokenizer.most == 1


def test_scores_are_log_probabilities_with_the_end_token(writer):
    pairs = [(one, KNOWN) for one in INPUTS]
    scores = writer.score(pairs)
    assert all(score < 0 for score in scores)
    assert scores == pytest.approx([writer.score([pair])[0] for pair in pairs], abs=1e-3)


def test_sampling_in_the_base_changes_nothing(tmp_path):
    folder = seq2seq_part(tmp_path / "part")
    wanted = load_writer(folder).write(INPUTS, 6)
    file = folder / "generation_config.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "do_sample": True, "temperature": 3.0, "top_p": 0.5}))
    assert load_writer(folder).write(INPUTS, 6) == wanted


@pytest.mark.parametrize("name", ["evil.py", "pytorch_model.bin", "optimizer.pt"])
def test_a_folder_with_code_or_a_pickle_is_refused(tmp_path, name):
    folder = seq2seq_part(tmp_path / "part")
    (folder / name).write_bytes(b"")
    with pytest.raises(UsageError, match=name):
        load_writer(folder)


@pytest.mark.parametrize(
    ("file", "entry"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "evil.Config"}}),
        ("config.json", {"attn_implementation": "somebody/kernel"}),
        ("config.json", {"_attn_implementation": {"": "somebody/kernel"}}),
        ("config.json", {"text_config": {"_attn_implementation": "somebody/kernel"}}),
        ("config.json", {"parts": [{"inner": {"attn_implementation": "somebody/kernel"}}]}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Tok", None]}}),
    ],
)
def test_a_folder_that_names_code_is_refused(tmp_path, file, entry):
    folder = seq2seq_part(tmp_path / "part")
    told = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**told, **entry}))
    with pytest.raises(UsageError, match=file):
        load_writer(folder)


def test_an_adapters_configuration_imports_nothing(tmp_path):
    """Entries of peft's that name modules are not read at all."""
    folder = causal_part(tmp_path / "part", tmp_path / "base")
    wanted = load_writer(folder).write(INPUTS[:1], 5)
    file = folder / "adapter_config.json"
    told = json.loads(file.read_text())
    more = {
        "auto_mapping": {"base_model_class": "X", "parent_library": "no_such_module"},
        "megatron_config": {"a": 1},
        "megatron_core": "no_such_module",
    }
    file.write_text(json.dumps({**told, **more}))
    assert load_writer(folder).write(INPUTS[:1], 5) == wanted


@pytest.mark.parametrize("kind", ["causal-lora", "seq2seq"])
def test_adapters_beside_whole_weights_are_refused(tmp_path, kind):
    """In a part's own folder, and in a base that lies within it: transformers would apply them."""
    if kind == "seq2seq":
        folder = whole = seq2seq_part(tmp_path / "part")
    else:
        folder = causal_part(tmp_path / "part", tmp_path / "base", {"base": "inner"})
        whole = (tmp_path / "base").rename(folder / "inner")
        assert len(load_writer(folder).write(INPUTS[:1], 2)) == 1
    evil = {"peft_type": "LORA", "megatron_core": "antigravity", "megatron_config": {"a": 1}}
    (whole / "adapter_config.json").write_text(json.dumps(evil))
    with pytest.raises(UsageError, match=rf"{whole}: adapter_config\.json asks for adapters"):
        load_writer(folder)


def test_a_missing_base_is_named_with_what_to_download(tmp_path):
    folder = causal_part(tmp_path / "part", tmp_path / "base", {"base": "nobody/none-such"})
    with pytest.raises(ModelError, match=r"nobody/none-such is not on this machine.*hf download"):
        load_writer(folder)


def test_a_base_in_the_hubs_cache_is_found(tmp_path, monkeypatch):
    cache = tmp_path / "hub"
    repo = cache / "models--somebody--tiny"
    tiny.causal_base(repo / "snapshots" / "abc123")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(cache))
    assert find_base_model("somebody/tiny") == repo / "snapshots" / "abc123"


def test_adapters_that_do_not_fit_their_base_are_refused(tmp_path):
    folder = causal_part(tmp_path / "part", tmp_path / "base")
    tiny.causal_base(tmp_path / "base", num_hidden_layers=1)
    with pytest.raises(ModelError, match="do not match the base"):
        load_writer(folder)
    tiny.causal_base(tmp_path / "base", hidden_size=32)
    with pytest.raises(ModelError, match="can't be read"):
        load_writer(folder)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_are_missing_are_named_unless_they_are_others(tmp_path, causal, tied):
    """Missing ones would be drawn at random; tied ones stand in the file once."""
    from safetensors.torch import load_file, save_file

    make = tiny.causal_base if causal else tiny.seq2seq_base
    folder = make(tmp_path / "base", tie_word_embeddings=tied)
    read_model(folder, causal=causal, dtype="float32")
    weights = load_file(folder / "model.safetensors")
    assert ("lm_head.weight" in weights) == (causal and not tied)  # T5's always are tied
    norms = [name for name in weights if "norm" in name]
    lost = "lm_head.weight" if causal and not tied else norms[-1]
    del weights[lost]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"weights are incomplete .no {lost}"):
        read_model(folder, causal=causal, dtype="float32")


def test_an_encoder_is_no_causal_model(tmp_path):
    from tests.tiny_encoder import make_tiny_encoder

    folder = make_tiny_encoder(tmp_path / "bert")
    with pytest.raises(ModelError, match="is not a causal model, or its weights are incomplete"):
        read_model(folder, causal=True, dtype="float32")


def test_damaged_weights_are_named(tmp_path):
    folder = seq2seq_part(tmp_path / "part")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ModelError, match=str(folder)):
        load_writer(folder)
    file.unlink()
    with pytest.raises(ModelError, match=str(folder)):
        load_writer(folder)


def test_a_part_of_another_role_or_kind_is_refused(tmp_path):
    folder = seq2seq_part(tmp_path / "part")
    with pytest.raises(UsageError, match="trained as a judge"):
        load_writer(folder, "filter")
    other = tmp_path / "small"
    other.mkdir()
    write_card(other, ModelCard(role="judge", kind="cross-encoder", base="minilm"))
    with pytest.raises(UsageError, match="does not generate text"):
        load_writer(other)
