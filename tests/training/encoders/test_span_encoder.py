"""Span encoders: from rows to a part in use."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave import build_graph
from ragweave.errors import ModelError, UsageError
from ragweave.trained import read_card
from ragweave.trained.chat import load_part
from ragweave.trained.filter import TrainedFilter
from ragweave.training.encoders.span_rows import span_measures, span_threshold
from ragweave.training.job import Watch
from ragweave.training.train import plan_training, train_part

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from ragweave.trained.span_reading import Sheet, Text
from ragweave.trained.span_scorer import load_span_scorer
from ragweave.training.encoders.span_encoder import model_of, rates, start_of
from ragweave.training.encoders.span_loss import answer_loss, listwise
from ragweave.training.encoders.span_rows import SpanSettings, read_examples
from tiny_encoder import make_tiny_encoder

SENTENCES = {
    "who wrote hamlet": "William wrote hamlet.",
    "where is paris": "Paris is in france.",
    "what is long": "The river is long.",
    "when was she born": "She was born 1564.",
}
TEXT = " ".join(SENTENCES.values())


class Looking(Watch):
    def __init__(self, stop: int = 0):
        super().__init__()
        self.losses, self._stop = [], stop

    def step(self, done, total, loss):
        self.losses.append(loss)
        self.stop_wanted = done == self._stop


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_tiny_encoder(tmp_path_factory.mktemp("base"))


def told(base, **more):
    usual = {
        "base": str(base),
        "epochs": 30.0,
        "learning_rate": 5e-3,
        "head_rate": 5e-3,
        "frozen_layers": 0,
        "batch": 2,
        "dropout": 0.0,
        "device": "cpu",
        "precision": "float32",
        "held_out": 0.0,
    }
    return {**usual, **more}


def row(question, sentence, number="", **more):
    start = TEXT.index(sentence)
    return {
        "id": f"{question}{number}",
        "question": f"{question}{number}",
        "answers": [sentence.split()[-1].strip(".")],
        "passages": [{"id": "p", "title": "poet", "text": TEXT}],
        "spans": [{"passage_id": "p", "start": start, "end": start + len(sentence)}],
        **more,
    }


ROWS = [row(*one) for one in SENTENCES.items()]


def write(path, rows=ROWS):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    return path


def planned(folder, rows, out, base, **more):
    settings = told(base, **more)
    return plan_training(
        "filter", write(folder / f"{out}.jsonl", rows), folder / out, kind="span-encoder",
        settings=settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory, base):
    folder = tmp_path_factory.mktemp("trained")
    watch = Looking()
    plan = plan_training(
        "filter",
        write(folder / "rows.jsonl"),
        folder / "filter",
        kind="span-encoder",
        held_out=write(
            folder / "held_out.jsonl", [row(*one, " maybe") for one in SENTENCES.items()]
        ),
        settings=told(base),
    )
    card = train_part(plan, watch=watch)
    return folder / "filter", card, watch


def test_the_loss_falls_and_the_card_says_what_came_of_it(trained):
    folder, card, watch = trained
    assert sum(watch.losses[-5:]) < sum(watch.losses[:5]) / 10
    assert (card.role, card.kind) == ("filter", "span-encoder")
    kept = {"recall", "precision", "words_kept"}
    ways = {f"{name}_{way}" for name in kept for way in ("top_1", "above_threshold")}
    assert set(card.metrics) >= {"first", "in_two", *ways}
    assert not set(card.metrics) & kept
    assert card.metrics["recall_above_threshold"]["mean"] >= 0.9
    left_out = {"no_sentence_kept": 0, "every_sentence_kept": 0}
    assert card.metrics["rows_not_measured"] == left_out
    assert card.metrics["first"]["n"] == 4
    assert card.data["used"] == {"train": 4, "held_out": 4}
    assert 0 < card.threshold < 1
    assert not (folder / "checkpoints").exists()
    assert {one.suffix for one in folder.iterdir()} <= {".json", ".safetensors", ".md", ".txt"}


def test_an_overfitted_part_keeps_what_it_was_taught(trained):
    folder, _, _ = trained
    part = load_part(folder, "filter")
    for question, sentence in SENTENCES.items():
        kept = part.keep(question, [Document(TEXT, id="p", metadata={"title": "poet"})])
        assert [one["text"] for one in kept] == [sentence]
        assert TEXT[kept[0]["start"] : kept[0]["end"]] == sentence
        assert kept[0]["score"] > 0.9


def test_the_threshold_is_a_share_of_the_best_and_top_limits(trained):
    folder, _, _ = trained
    passages = [Document(TEXT, id="p"), Document("It was snow. Not sure.", id="q")]
    every = TrainedFilter(str(folder), top=None, threshold=0.0).keep("who wrote hamlet", passages)
    assert len(every) == 6
    assert math.fsum(one["score"] for one in every) == pytest.approx(1.0)
    best = every[0]["score"]
    for least in (0.0, every[1]["score"] / best, every[3]["score"] / best, 1.0):
        kept = TrainedFilter(str(folder), top=None, threshold=least)
        found = kept.keep("who wrote hamlet", passages)
        assert found == [one for one in every if one["score"] >= least * best * (1 - 1e-9)]
        assert found
    assert (
        TrainedFilter(str(folder), top=2, threshold=0.0).keep("who wrote hamlet", passages)
        == (every[:2])
    )
    assert TrainedFilter(str(folder)).keep("who", []) == []
    assert TrainedFilter(str(folder)).keep("who", [Document(page_content=" ")]) == []


def test_a_saved_and_reloaded_part_gives_the_same_scores(tmp_path, base):
    from ragweave.trained.encoders import load_tokenizer
    from ragweave.trained.span_scorer import SpanScorer, write_model

    settings = SpanSettings(base=str(base), max_input=40)
    start = start_of(settings)
    model = model_of(start, settings)
    sheets = [Sheet("who is it", [Text("a cat", ["The cat ran.", "It ate."] * 9)])]
    wanted = SpanScorer(start.reader.tokenizer, model).logits(sheets)
    write_model(tmp_path, model, start.reader.tokenizer)
    assert load_span_scorer(tmp_path, "cpu").logits(sheets) == wanted
    assert load_tokenizer(tmp_path).model_max_length == 40


def test_scores_do_not_depend_on_what_is_scored_beside(trained):
    scorer = load_span_scorer(trained[0], "cpu")
    sheets = [
        Sheet(one, [Text("", [*SENTENCES.values()][:n])])
        for n, one in enumerate(SENTENCES, start=1)
    ]
    together = scorer.logits(sheets)
    for sheet, found in zip(sheets, together, strict=True):
        assert scorer.logits([sheet])[0] == pytest.approx(found, abs=1e-4)
    assert scorer.logits([]) == []


@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_training_equals_an_undisturbed_one(tmp_path, base, stop):
    more = {"epochs": 2.0, "dropout": 0.2}
    train_part(planned(tmp_path, ROWS, "whole", base, **more))
    halves = planned(tmp_path, ROWS, "halves", base, **more)
    with pytest.raises(KeyboardInterrupt):
        train_part(halves, watch=Looking(stop))
    train_part(halves, resume=True)
    weights = [(tmp_path / one / "model.safetensors").read_bytes() for one in ("whole", "halves")]
    assert weights[0] == weights[1]


def test_a_training_begins_from_another_part(tmp_path, trained):
    folder, card, first = trained
    watch = Looking()
    plan = plan_training(
        "filter",
        write(tmp_path / "rows.jsonl"),
        tmp_path / "next",
        kind="span-encoder",
        settings={
            "base": str(folder),
            "frozen_layers": 0,
            "batch": 2,
            "device": "cpu",
            "held_out": 0,
        },
    )
    assert (plan.settings.epochs, plan.settings.learning_rate) == (2.0, 5e-5)
    made = train_part(plan, watch=watch)
    assert watch.losses[0] < first.losses[0] / 10
    assert made.data["base"]["part"] == folder.name
    assert len(made.data["base"]["card_sha256"]) == 64
    assert read_card(tmp_path / "next") == made
    chosen = plan_training(
        "filter",
        tmp_path / "rows.jsonl",
        tmp_path / "more",
        kind="span-encoder",
        settings={"base": str(folder), "epochs": 5.0, "held_out": 0},
    )
    assert (chosen.settings.epochs, chosen.settings.learning_rate) == (5.0, 5e-5)
    assert card.settings["epochs"] == 30.0


def test_a_part_that_read_little_may_read_what_its_positions_hold(tmp_path, base):
    first = planned(tmp_path, ROWS, "first", base, epochs=1.0, max_input=40)
    assert train_part(first).settings["max_input"] == 40
    start = start_of(SpanSettings(base=str(tmp_path / "first"), max_input=60))
    assert start.limit == start.reader.tokenizer.model_max_length == 60
    card = train_part(planned(tmp_path, ROWS, "next", tmp_path / "first", epochs=1.0))
    assert card.settings["max_input"] == 64
    with pytest.raises(UsageError, match=r"max_input is 65, but .* reads 64 tokens at most"):
        train_part(planned(tmp_path, ROWS, "long", tmp_path / "first", max_input=65))
    assert not (tmp_path / "long").exists()


@pytest.mark.parametrize("frozen", [0, 1])
def test_activations_are_computed_again_where_asked(tmp_path, base, monkeypatch, frozen):
    import torch.utils.checkpoint as torch_checkpoint
    import transformers.modeling_utils as models

    calls = []

    def counted(*given, **more):
        calls.append(given)
        return torch_checkpoint.checkpoint(*given, **more)

    monkeypatch.setattr(models, "checkpoint", counted)
    weights, counts = [], []
    for name, again in (("kept", False), ("again", True)):
        more = {"epochs": 1.0, "frozen_layers": frozen, "gradient_checkpointing": again}
        train_part(planned(tmp_path, ROWS, name, base, **more))
        weights.append(load_span_scorer(tmp_path / name, "cpu")._model.state_dict())
        counts.append(len(calls))
    assert counts == [0, 4]  # two steps, two layers
    for one, other in zip(*(each.values() for each in weights), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_part_of_another_kind_is_no_base(tmp_path, base):
    from tests.tiny_parts import finish

    finish(tmp_path / "other", "filter", "cross-encoder")
    plan = planned(tmp_path, ROWS, "out", tmp_path / "other")
    with pytest.raises(UsageError, match="is a cross-encoder"):
        train_part(plan)


def test_weights_that_are_not_whole_are_refused(tmp_path, trained):
    from safetensors.torch import load_file, save_file

    folder, _, _ = trained
    for one in folder.iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("head.token.weight")
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"head\.token\.weight"):
        load_part(tmp_path, "filter")
    (tmp_path / "code.py").write_text("")
    with pytest.raises(UsageError, match="code"):
        load_span_scorer(tmp_path)


def test_only_a_filter_can_be_one(tmp_path):
    from tests.tiny_parts import finish

    with pytest.raises(UsageError, match="only as: filter"):
        plan_training("judge", tmp_path / "x", tmp_path / "y", kind="span-encoder")
    finish(tmp_path / "odd", "judge", "span-encoder")
    with pytest.raises(UsageError, match="is damaged"):
        load_part(tmp_path / "odd", "judge")


def test_a_graph_cuts_its_passages(trained):
    graph = build_graph("filco", model="extractive", filter=str(trained[0]))
    passages = [Document(TEXT, id="p", metadata={"title": "poet"})]
    found = graph.invoke({"question": "where is paris", "passages": passages})
    assert [one.page_content for one in found["passages"]] == ["Paris is in france."]


def test_the_dry_run_shows_what_is_read(tmp_path, base):
    shown = planned(tmp_path, ROWS, "out", base).preview(1)[0]
    assert shown.input.startswith("[CLS] who wrote hamlet [SEP] poet")
    assert shown.target == "of 4 sentences keep: William wrote hamlet."


def test_rows_that_teach_nothing_are_counted_and_passages_share_a_row(base):
    reader = start_of(SpanSettings(base=str(base), max_input=64)).reader
    bare = {**row("what is long", "The river is long."), "spans": []}
    full = row("what", "The river is long.")
    full["passages"] = [{"id": "p", "title": "", "text": "The river is long."}]
    full["spans"] = [{"passage_id": "p", "start": 0, "end": 18, "text": "", "score": 1.0}]
    two = row("what is long", "The river is long.", source={"measure": "strinc"})
    two["passages"] = [{"id": "q", "title": "", "text": "Not sure. Maybe."}, *two["passages"]]
    found = read_examples([bare, full, two], reader)
    assert (found.empty, found.whole, len(found.examples)) == (1, 1, 1)
    one = found.examples[0]
    assert one.gold == [4]
    assert len(one.sizes) == 6
    assert not one.every
    words = [
        reader.tokenizer.decode([token])
        for window, marks in zip(one.read.windows, one.answers, strict=True)
        for token, mark in zip(window.ids, marks, strict=True)
        if mark
    ]
    assert words == ["long"]


def test_rows_without_a_choice_are_refused(tmp_path, base):
    short = {**ROWS[0], "passages": [{"id": "p", "title": "", "text": TEXT[:21]}]}
    plan = planned(tmp_path, [short], "out", base)
    with pytest.raises(UsageError, match="no row has both"):
        train_part(plan)


def test_the_losses_are_shares_of_what_is_to_be_kept(base):
    reader = start_of(SpanSettings(base=str(base), max_input=64)).reader
    example = read_examples(ROWS[:1], reader).examples[0]._replace(gold=[0, 1])
    scores = torch.log(torch.tensor([0.4, 0.1, 0.2, 0.3]))
    both = listwise(scores, [example._replace(every=False)], 0.5).item()
    assert both == pytest.approx(-math.log(0.5))
    each = -(math.log(0.4) + math.log(0.1)) / 2
    assert listwise(scores, [example], 0.5).item() == pytest.approx((both + each) / 2)
    marks = torch.tensor([[False, True, False], [False, False, False]])
    inside = torch.tensor([[True, True, False], [True, True, True]])
    tokens = torch.log(torch.tensor([[0.3, 0.1, 0.6], [0.1, 0.2, 0.7]]))
    assert answer_loss(tokens, marks, inside).item() == pytest.approx(-math.log(0.25), rel=1e-4)
    assert answer_loss(tokens, marks & False, inside).item() == 0.0


def test_embeddings_and_low_layers_rest_and_the_head_has_its_own_rate(base):
    settings = SpanSettings(base=str(base), max_input=64, frozen_layers=1, layer_decay=0.5)
    model = model_of(start_of(settings), settings)
    groups = rates(model, settings)
    assert {(one["lr"], one["weight_decay"]) for one in groups} == {
        (5e-4, 0.01),
        (5e-4, 0.0),
        (1e-4, 0.01),
        (1e-4, 0.0),
    }
    resting = [name for name, one in model.named_parameters() if not one.requires_grad]
    assert resting
    assert all("embeddings" in name or "layer.0." in name for name in resting)
    free = SpanSettings(base=str(base), max_input=64, frozen_layers=0, layer_decay=0.5)
    model = model_of(start_of(free), free)
    assert sum(len(one["params"]) for one in rates(model, free)) == len([*model.parameters()])


@st.composite
def scored(draw):
    scores = draw(st.lists(st.floats(-9, 9), min_size=2, max_size=8))
    gold = draw(st.sets(st.integers(0, len(scores) - 1), min_size=1))
    return scores, sorted(gold)


@given(st.lists(scored(), min_size=1, max_size=12), st.floats(0, 1))
def test_the_threshold_reaches_the_recall_and_no_higher_one_does(found, wanted):
    logits, golds = zip(*found, strict=True)
    sizes = [[1] * len(one) for one in logits]
    least = span_threshold(logits, golds, wanted)
    assert 0 < least <= 1
    reached = span_measures(logits, golds, sizes, least)["recall"]["mean"]
    assert reached >= wanted - 1e-3
    higher = span_measures(logits, golds, sizes, least / (1 - 2e-4))["recall"]["mean"]
    assert higher <= max(wanted, min(reached, higher))


@pytest.mark.parametrize(
    "bad",
    [{"recall": 1.5}, {"dropout": -1.0}, {"layer_decay": 0.0}, {"head_rate": 0.0},
     {"frozen_layers": -1}, {"answer_weight": -0.1}],
)  # fmt: skip
def test_settings_out_of_range(bad):
    with pytest.raises(UsageError, match=next(iter(bad))):
        SpanSettings(**bad)
