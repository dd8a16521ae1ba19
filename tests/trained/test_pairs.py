"""Loading cross-encoders: same scores whatever the batch, thread or form; unsafe folders refused."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweave.errors import ModelError, UsageError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ragweave.trained import pairs as pairs_module  # noqa: E402
from ragweave.trained.pairs import load_pair_scorer  # noqa: E402
from tiny_encoder import TEXT, make_tiny_encoder  # noqa: E402

WORDS = TEXT.split()
PAIRS = [("who wrote hamlet ?", "paris . " * n) for n in range(70)]


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    folder = make_tiny_encoder(tmp_path_factory.mktemp("encoder"))
    made = tmp_path_factory.mktemp("part")
    torch.manual_seed(1)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    model.classifier.weight.data.mul_(20)
    model.save_pretrained(made)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def scorer(part):
    return load_pair_scorer(part, "cpu")


@pytest.fixture
def copy(part, tmp_path):
    return shutil.copytree(part, tmp_path / "copy")


def test_a_score_is_the_models_own_probability(part, scorer):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(part).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(part)
    wanted = []
    for first, second in PAIRS[:20]:
        encoded = tokenizer([first], [second], truncation="longest_first", return_tensors="pt")
        with torch.inference_mode():
            wanted.append(torch.sigmoid(model(**encoded).logits)[0, 0].item())
    assert scorer.score(PAIRS[:20]) == pytest.approx(wanted, abs=1e-5)
    assert max(wanted) - min(wanted) > 0.01


texts = st.lists(st.sampled_from(WORDS), max_size=100).map(" ".join)


@settings(max_examples=20)
@given(st.lists(st.tuples(texts, texts), max_size=40))
def test_order_and_scores_do_not_depend_on_the_batch(scorer, pairs):
    found = scorer.score(pairs)
    assert all(0 <= one <= 1 for one in found)
    assert found == pytest.approx([scorer.score([pair])[0] for pair in pairs], abs=1e-5)


def test_no_pairs_have_no_scores(scorer):
    assert scorer.score([]) == []


def test_threads_get_what_one_gets(scorer):
    alone = scorer.score(PAIRS)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: scorer.score(PAIRS), range(16)))
    assert all(found == pytest.approx(alone, abs=1e-6) for found in together)


def test_a_sentence_survives_the_cut_to_the_models_length(scorer):
    text = " ".join(["snow fell in paris ."] * 40)
    passages = [{"id": "p", "title": "poet", "text": f"{text} hamlet ate rome . {text}"}]
    start = len(text) + 1
    span = {"passage_id": "p", "start": start, "end": start + 17, "text": "", "score": 0.0}
    question, shown = scorer.form.pairs("who ate rome ?", passages, [span])[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(scorer._tokenizer.name_or_path)
    read = tokenizer(question, shown)["input_ids"]
    assert scorer.limit - 4 <= len(read) <= scorer.limit
    assert "[ hamlet ate rome . ]" in shown


def test_a_passage_of_many_sentences_is_scored_sentence_by_sentence(scorer):
    passages = [{"id": "p", "title": "", "text": "Paris ran. Rome ate snow. A cat."}]
    places = [(0, 10), (11, 25), (26, 32)]
    spans = [
        {"passage_id": "p", "start": start, "end": end, "text": "", "score": 0.0}
        for start, end in places
    ]
    assert len(set(scorer.score(scorer.form.pairs("who ?", passages, spans)))) == 3


def test_onnx_is_used_where_it_is_there_and_gives_the_same_scores(copy, scorer, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from ragweave.training.encoders.onnx import export_onnx

    assert export_onnx(copy) == copy / "model.onnx"
    assert sorted(path.name for path in copy.iterdir() if "onnx" in path.name) == ["model.onnx"]
    wanted = scorer.score(PAIRS)
    assert load_pair_scorer(copy).score(PAIRS) == pytest.approx(wanted, abs=1e-3)

    (copy / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"model\.onnx: cannot be read"):
        load_pair_scorer(copy)
    monkeypatch.setattr(pairs_module, "_has_onnx", lambda: False)
    assert load_pair_scorer(copy).score(PAIRS) == pytest.approx(wanted, abs=1e-6)


def test_an_export_that_scores_otherwise_is_not_kept(copy, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from ragweave.training.encoders import onnx

    other = load_pair_scorer(copy, "cpu")
    monkeypatch.setattr(onnx, "_write", lambda model, tokenizer, path: path.write_bytes(b"other"))
    monkeypatch.setattr(onnx, "onnx_run", lambda path: lambda features: other._run(features) + 1)
    with pytest.raises(ModelError, match="gives different scores"):
        onnx.export_onnx(copy)
    assert [path.name for path in copy.iterdir() if "onnx" in path.name] == []


class Boom:
    def __reduce__(self):
        return (sys.exit, (1,))


def write_json(name, fields):
    def write(folder):
        path = folder / name
        old = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps({**old, **fields} if isinstance(fields, dict) else fields))

    return write


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: (f / "modeling.py").write_text("1/0"), r"modeling\.py is code"),
        (lambda f: (f / "pytorch_model.bin").write_bytes(pickle.dumps(Boom())), "pickle"),
        (lambda f: (f / "model.safetensors").unlink(), r"no model\.safetensors"),
        (write_json("config.json", {"auto_map": {"AutoModel": "x.Y"}}), "auto_map"),
        (
            write_json("config.json", {"attn_implementation": "who/kernels"}),
            "refers to custom code",
        ),
        (
            write_json("config.json", {"text_config": {"_attn_implementation": "who/kernels"}}),
            "refers to custom code",
        ),
        (write_json("adapter_config.json", {"peft_type": "LORA"}), "asks for adapters"),
        (write_json("modules.json", [{"type": "os.system"}]), "'os.system'"),
        (write_json("modules.json", {"type": 1}), "is not a list of modules"),
        (
            write_json("config_sentence_transformers.json", {"activation_fn": "os.abort"}),
            "'os.abort'",
        ),
        (
            write_json("config.json", {"sentence_transformers": {"activation_fn": "os.abort"}}),
            "'os.abort'",
        ),
    ],
)
def test_unsafe_folders_are_refused(copy, spoil, told):
    spoil(copy)
    with pytest.raises(UsageError, match=told):
        load_pair_scorer(copy)


def test_sentence_transformers_own_classes_are_let_in(copy, scorer):
    own = "sentence_transformers.base.modules.transformer.Transformer"
    (copy / "modules.json").write_text(json.dumps([{"idx": 0, "path": "", "type": own}]))
    write_json(
        "config_sentence_transformers.json",
        {"activation_fn": "torch.nn.modules.activation.Sigmoid"},
    )(copy)
    assert load_pair_scorer(copy, "cpu").score(PAIRS[:3]) == scorer.score(PAIRS[:3])


def test_damaged_and_foreign_weights_are_refused(copy):
    whole = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="cannot be read"):
        load_pair_scorer(copy, "cpu")
    encoder = transformers.BertModel(transformers.BertConfig.from_pretrained(copy))
    encoder.save_pretrained(copy)
    with pytest.raises(ModelError, match=r"incomplete \(no classifier"):
        load_pair_scorer(copy, "cpu")


def test_a_missing_folder_tokenizer_or_device_is_said(copy, tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        load_pair_scorer(tmp_path / "none")
    with pytest.raises(UsageError, match="device 'abacus'"):
        load_pair_scorer(copy, "abacus")
    (copy / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="tokenizer cannot be read"):
        load_pair_scorer(copy)


def test_importing_loads_no_heavy_library():
    code = (
        "import sys, ragweave.trained.pairs; "
        "print([m for m in ('torch', 'transformers', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
