"""What a large part reads and must write, in tokens: limits, labels, end tokens, dry runs."""

from __future__ import annotations

import shutil

import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tiny_parts import finish
from tests.training.writers import tiny

from ragweave.errors import ModelError, UsageError
from ragweave.trained.weights import read_tokenizer
from ragweave.training.train import recipe_of
from ragweave.training.writers.causal import RECIPE as CAUSAL
from ragweave.training.writers.examples import Encoder, add_marks, example, shown
from ragweave.training.writers.seq2seq import RECIPE as SEQ2SEQ

ROLES = ["judge", "rewriter", "filter", "generator"]
MAKERS = {"seq2seq": tiny.seq2seq_tokenizer, "causal-lora": tiny.causal_tokenizer}


@pytest.fixture(scope="module", params=["seq2seq", "causal-lora"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind, bases):
    made = read_tokenizer(bases(kind))
    if kind == "seq2seq":
        add_marks(made)
    return made


def encoder(tokenizer, kind, role, max_input=200, max_output=64):
    return Encoder(tokenizer, role, kind == "causal-lora", max_input, max_output)


@pytest.mark.parametrize("role", ROLES)
def test_only_the_output_has_labels(tokenizer, kind, role):
    encode = encoder(tokenizer, kind, role)
    for row in tiny.ROWS[role](4):
        features = encode.features(row)
        labels = [one for one in features["labels"] if one != -100]
        assert labels[-1] == tokenizer.eos_token_id
        assert tokenizer.eos_token_id not in labels[:-1]
        written = tokenizer.decode(labels, skip_special_tokens=True).replace("< ", "<")
        assert written.split() == example(role, row).target.split()
        if kind == "causal-lora":
            prompt = features["input_ids"][: -len(labels)]
            assert features["labels"] == [-100] * len(prompt) + labels
            assert features["input_ids"][-len(labels) :] == labels
            assert tokenizer.decode(prompt).endswith(tiny.LEADS[role])
    assert not +encode.counts


words = st.lists(
    st.sampled_from(["Paris", "France", "many", "people", "((live))", "there.", "<b>", "ü"])
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=words, after=words, limit=st.integers(50, 120), room=st.integers(2, 20))
def test_limits_hold_and_neither_question_nor_end_token_is_ever_cut(
    tokenizer, kind, before, after, limit, room
):
    kept = "Rome is the capital of Italy."
    text = " ".join([*before, kept, *after])
    start = text.index(kept)
    row = {
        "id": "1",
        "question": "capital of Italy?",
        "answers": ["Rome " * 9],
        "passages": [{"id": "p", "title": "", "text": text}],
        "spans": [
            {
                "passage_id": "p",
                "start": start,
                "end": len(text),
                "text": text[start:],
                "score": 1.0,
            }
        ],
    }
    for role in ("filter", "generator"):
        encode = encoder(tokenizer, kind, role, limit, room)
        tokens = encode.tokens(row)
        assert len(tokens.given) <= limit
        assert len(tokens.target) <= room
        assert tokens.target[-1] == tokenizer.eos_token_id
        assert tokens.target.count(tokenizer.eos_token_id) == 1
        read = tokenizer.decode(tokens.given, skip_special_tokens=True)
        assert "capital of Italy?" in read
        whole = example(role, row).target
        cut = len(tokenizer(whole, add_special_tokens=False)["input_ids"]) >= room
        assert encode.counts["targets_cut"] == cut
        if not cut:
            known = whole if kind == "causal-lora" else whole.replace("ü", "<unk>")
            assert tokenizer.decode(tokens.target[:-1]).split() == known.split()


def test_an_input_keeps_as_much_as_fits(tokenizer, kind):
    """The words that were dropped would not have fitted."""
    text = " ".join(f"{place} {land}" for place, land in zip(tiny.PLACES, tiny.LANDS, strict=True))
    row = {**tiny.silver_rows(1)[0], "passages": [{"id": "p0", "title": "", "text": text}]}
    full = encoder(tokenizer, kind, "filter", 500).tokens({**row, "spans": []})
    for limit in range(len(full.given) - 10, len(full.given) + 1):
        encode = encoder(tokenizer, kind, "filter", limit)
        got = encode.tokens({**row, "spans": []})
        assert len(got.given) <= limit
        assert len(got.given) > limit - 8
        assert encode.counts["inputs_cut"] == (limit < len(full.given))
        assert encode.counts["targets_empty"] == 1
        assert got.target == [tokenizer.eos_token_id]


def test_a_question_too_long_for_the_model_is_refused(tokenizer, kind):
    row = {**tiny.judge_rows(1)[0], "question": "Paris " * 100}
    with pytest.raises(UsageError, match="question alone is longer than the 60 tokens"):
        encoder(tokenizer, kind, "judge", 60).tokens(row)


def test_the_judges_marks_survive_a_vocabulary_without_them(bases):
    tokenizer = read_tokenizer(bases("seq2seq"))
    row = tiny.judge_rows(1)[0]
    encode = encoder(tokenizer, "seq2seq", "judge")
    encode.tokens(row)
    assert encode.counts["targets_with_unknown_tokens"] == 1
    assert add_marks(tokenizer) == 2
    assert add_marks(tokenizer) == 0
    encode = encoder(tokenizer, "seq2seq", "judge")
    tokens = encode.tokens(row)
    assert encode.counts["targets_with_unknown_tokens"] == 0
    assert tokenizer.decode(tokens.target).replace("< ", "<") == "<Known(False)></s>"


@pytest.mark.parametrize("role", ROLES)
def test_a_dry_run_shows_the_very_tokens_that_are_trained_on(bases, kind, role, tmp_path):
    job = tiny.job(bases(kind), tmp_path, role, kind, train=tiny.ROWS[role](3))
    recipe = recipe_of(kind, role)
    got = list(recipe.preview(job))
    tokenizer = read_tokenizer(bases(kind))
    recipe.prepare(tokenizer, role)
    assert len(got) == 3
    for one, row in zip(got, job.rows.train, strict=True):
        tokens = encoder(tokenizer, kind, role).tokens(row)
        assert one == (tokenizer.decode(tokens.given), tokenizer.decode(tokens.target))
        assert one.target.endswith("</s>")
        assert one.input.startswith("<s>") == (kind == "causal-lora")
    assert list(tmp_path.iterdir()) == []


def test_shown_forms_are_the_papers(bases, tmp_path):
    told = {
        role: next(
            iter(
                CAUSAL.preview(
                    tiny.job(bases("causal-lora"), tmp_path, role, "causal-lora", max_input=300)
                )
            )
        )
        for role in ROLES
    }
    assert told["judge"].input == (
        "<s>Coarse answer: ((I am not sure.))\nQuestion: ((What is the capital of France?))"
        "\nRetrieval Necessity Judgment Output: "
    )
    assert told["judge"].target == "<Known(False)></s>"
    assert told["filter"].input == (
        "<s>question: What is the capital of France?\ncontext: France: Many people live there. "
        "Paris is the capital of France. The food is good.\nfiltered context: "
    )
    assert told["generator"] == (
        "<s>context: France: Paris is the capital of France.\n"
        "question: What is the capital of France?\nanswer: ",
        "Paris</s>",
    )


@pytest.mark.parametrize("recipe", [SEQ2SEQ, CAUSAL])
def test_filcos_settings_are_the_defaults(recipe):
    for role, room in (("filter", 512), ("generator", 128)):
        told = recipe.defaults(role)
        assert (told.epochs, told.learning_rate, told.batch) == (3.0, 5e-5, 32)
        assert (told.max_input, told.max_output) == (1024, room)


def test_a_base_that_is_not_here_is_named_with_what_to_download(tmp_path, kind):
    job = tiny.job("nobody/no-such-model", tmp_path, "judge", kind)
    with pytest.raises(
        ModelError, match=r"hf download nobody/no-such-model.*hub.*path of a folder"
    ):
        recipe_of(kind, "judge").fit(job)
    with pytest.raises(ModelError, match="hf download"):
        next(recipe_of(kind, "judge").preview(job))


def test_a_base_of_the_other_kind_is_refused(bases, tmp_path, kind):
    other = {"seq2seq": "causal-lora", "causal-lora": "seq2seq"}[kind]
    job = tiny.job(bases(other), tmp_path, "judge", kind)
    with pytest.raises(ModelError, match=r"can't be read as an? "):
        recipe_of(kind, "judge").fit(job)


def test_a_part_of_another_kind_is_no_base(bases, tmp_path, kind):
    """Its weights would fit in part, and the rest of them would be drawn at random."""
    part = shutil.copytree(bases(kind), tmp_path / "part")
    finish(part, "judge", "cross-encoder")
    job = tiny.job(part, tmp_path / "out", "judge", kind)
    recipe = recipe_of(kind, "judge")
    for act in (recipe.check, recipe.fit, lambda one: next(recipe.preview(one))):
        with pytest.raises(UsageError, match=f"is a cross-encoder, and a {kind} begins from its"):
            act(job)


def test_a_model_with_fewer_places_leaves_room_for_the_output(bases, tmp_path):
    job = tiny.job(
        bases("causal-lora"), tmp_path, "judge", "causal-lora", max_input=1024, max_output=500
    )
    with pytest.raises(UsageError, match="longer than the 12 tokens"):
        next(CAUSAL.preview(job))
    config = transformers.AutoConfig.from_pretrained(bases("causal-lora"))
    assert config.max_position_embeddings == 512
    assert (
        list(shown(encoder(read_tokenizer(bases("causal-lora")), "causal-lora", "judge"), [])) == []
    )
