"""The trained router: outcomes in, a part that chooses routes; no feature sees a gold answer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from safetensors.numpy import load_file, save_file
from tests.recordings import ROWS, TOWNS, row, written
from tests.stopping import Stopping
from tests.tiny_encoder import make_tiny_encoder

from ragweave import build_graph
from ragweave.datasets.recorded import read_recordings
from ragweave.errors import ModelError, UsageError
from ragweave.state.records import ROUTES
from ragweave.testing import (
    CARDS,
    ModelCall,
    RecordingRetriever,
    ReplayChat,
    ReplayRetriever,
    ScriptedModel,
)
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever
from ragweave.trained import read_card
from ragweave.trained.router import (
    RouterRead,
    chosen_route,
    feature_names,
    load_router,
    read_drafts,
)
from ragweave.trained.router_features import (
    DRAFT_NAMES,
    LOOK_NAMES,
    draft_features,
    look_features,
    look_queries,
    read_draft,
)
from ragweave.trained.router_words import WORDS, hashed_words
from ragweave.training.encoders import kept_rows, router_rows
from ragweave.training.encoders.kept_rows import KEPT
from ragweave.training.encoders.router import (
    RouterSettings,
    best_threshold,
    fit_router,
    folds_of,
    gate_threshold,
    routes_of,
)
from ragweave.training.job import CHECKPOINTS
from ragweave.training.rows import read_rows
from ragweave.training.train import Plan, plan_training, train_part

KNOWN = "Everybody knows the bridge of 1931. So the answer is: Ada Brenner."
DOUBTED = "There is no information about it, it is not known. So the answer is: unknown."
PUZZLE = (
    "karl was the son of the father of the builder. karl was. karl was. So the answer is: karl."
)


def outcomes() -> list[dict[str, object]]:
    """Return recordings in which the draft's wording tells the right route."""
    made = []
    for number in range(60):
        kind = number % 3
        said = (KNOWN, DOUBTED, PUZZLE)[kind]
        none, one, many = (("Ada Brenner", "x", "x"), ("x", "Ada Brenner", "x"), ("x", "x", ""))[
            kind
        ]
        many = "Ada Brenner" if kind == 2 else many
        made.append(row(number, none=none, one=one, many=many, said=said))
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_encoder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def router(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("router")
    file = written(folder / "rows.jsonl", outcomes())
    settings = {"base": str(base), "held_out": 0.2, "retrieve_at_most": 0.8}
    train_part(plan_training("router", file, folder / "part", settings=settings))
    return folder / "part"


def test_a_router_learns_which_route_is_right(router: Path) -> None:
    card = read_card(router, "router")
    assert card.kind == "linear-router"
    assert card.metrics["accuracy"]["mean"] == 1.0
    assert card.metrics["never"]["mean"] < 0.7
    assert card.data["train"]["right_none"] < card.data["train"]["rows"]
    part = load_router(str(router))
    asked = "Who built the bridge at Tarn, number 4?"
    assert [part.choose(asked, said).route for said in (KNOWN, DOUBTED, PUZZLE)] == list(ROUTES)
    assert part.choose(asked, DOUBTED, threshold=0.999).route == "none"
    names = {one.name for one in router.iterdir()}
    assert not [one for one in names if one.endswith((".bin", ".pkl", ".npy"))]


def test_adaptive_and_slimplm_take_the_route_that_the_router_chooses(router: Path) -> None:
    rows = outcomes()[:3]
    recordings = read_recordings(written(router.parent / "three.jsonl", rows))
    for method in ("adaptive", "slimplm"):
        graph = build_graph(
            method,
            model=ReplayChat.of(recordings),
            retriever=ReplayRetriever.of(recordings),
            route="classifier",
            router=str(router),
        )
        outs = [graph.invoke({"question": one.question}) for one in recordings[:2]]
        assert [out["answer"] for out in outs] == ["Ada Brenner", "Ada Brenner"]
        assert [out["usage"]["retrievals"] for out in outs] == [0, 1]
    out = build_graph(
        "adaptive",
        model=ReplayChat.of(recordings),
        retriever=ReplayRetriever.of(recordings),
        route="classifier",
        router=str(router),
        filter="full",
    ).invoke({"question": recordings[2].question})
    assert out["usage"]["retrievals"] > 1


@pytest.fixture
def parted(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan of a training that was stopped when it had read 40 of 60 rows."""
    monkeypatch.setattr(router_rows, "_AT_ONCE", 20)
    file = written(tmp_path / "rows.jsonl", outcomes())
    settings = {"base": str(base), "held_out": 0.2, "retrieve_at_most": 0.8}
    plan = plan_training("router", file, tmp_path / "parted", settings=settings)
    with pytest.raises(KeyboardInterrupt):
        train_part(plan, watch=Stopping(40))
    return plan


def test_a_stopped_training_reads_no_row_twice_and_ends_the_same(parted: Plan) -> None:
    assert not (parted.folder / "router.safetensors").exists()
    rest = Stopping()
    card = train_part(parted, resume=True, watch=rest)
    assert rest.steps == [60]
    assert not (parted.folder / CHECKPOINTS).exists()
    whole = dataclasses.replace(parted, folder=parted.folder.with_name("whole"))
    assert train_part(whole).metrics == card.metrics
    one, other = (load_file(each.folder / "router.safetensors") for each in (parted, whole))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_what_is_kept_survives_a_kill_between_two_savings(
    parted: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killing(Stopping):
        def step(self, done: int, total: int, loss: float | None) -> None:
            super().step(done, total, loss)
            if done == 60:
                raise SystemExit

    monkeypatch.setattr(kept_rows, "_SAVE_EVERY", 20)
    kept = parted.folder / CHECKPOINTS / KEPT
    kept.unlink()
    with pytest.raises(SystemExit):
        train_part(parted, resume=True, watch=Killing())
    rest = Stopping()
    train_part(parted, resume=True, watch=rest)
    assert rest.steps == [60]


@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_were_half_written_or_read_otherwise_are_read_again(
    parted: Plan, whole: bool
) -> None:
    kept = parted.folder / CHECKPOINTS / KEPT
    if whole:
        arrays = load_file(kept)
        save_file({**arrays, "surface": arrays["surface"][:, 1:].copy()}, kept, {"mark": ""})
    else:
        kept.write_bytes(kept.read_bytes()[:1000])
    rest = Stopping()
    train_part(parted, resume=True, watch=rest)
    assert rest.steps == [20, 40, 60]


ASKED = (
    "What is the capital?",
    "When was the bridge at {} opened?",
    "Who is the father of the builder of the bridge of the town where {} died?",
)


@pytest.fixture(scope="module")
def complexity(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A router that was trained on questions alone, of which the wording tells the right route."""
    folder = tmp_path_factory.mktemp("complexity")
    rows = [
        {
            "id": str(at),
            "question": f"{ASKED[at % 3].format(TOWNS[at % len(TOWNS)])} {at}",
            "right": {name: place >= at % 3 for place, name in enumerate(ROUTES)},
        }
        for at in range(60)
    ]
    rows += [{**rows[2], "id": "x", "right": dict.fromkeys(ROUTES, False)}]
    settings = {"base": str(base), "held_out": 0.2, "retrieve_at_most": 0.8, "drafts": False}
    file = written(folder / "rows.jsonl", rows)
    train_part(plan_training("router", file, folder / "part", settings=settings))
    return folder / "part"


def test_a_router_of_questions_reads_no_draft(complexity: Path) -> None:
    part = load_router(str(complexity))
    assert not part.drafts
    for at, route in enumerate(ROUTES):
        asked = f"{ASKED[at].format('Tarn')} 7"
        assert part.choose(asked, "").route == part.choose(asked, KNOWN).route == route
    assert part.choose(ASKED[2].format("Tarn"), "", threshold=0.999).route == "none"


def test_adaptive_rag_takes_the_route_of_a_router_of_questions(
    complexity: Path, router: Path
) -> None:
    def reply(call: ModelCall) -> str:
        done = "Reasoning so far: (nothing yet)" not in call.last.rpartition("Question:")[2]
        steps = "So the answer is: Ada." if done else "The builder came from Norhaven."
        return steps if call.node == "reason" else "So the answer is Ada."

    graph = build_graph(
        "adaptive_rag",
        model=ScriptedModel(script=reply),
        retriever=RecordingRetriever(documents=list(CARDS)),
        router=str(complexity),
        k=2,
        k_one=4,
    )
    found = []
    for asked in ASKED:
        *_, state = graph.stream({"question": asked.format("Tarn")}, stream_mode="values")
        usage = state["usage"]
        found.append((state["route"], usage["calls"], usage["retrievals"], len(state["passages"])))
    assert found[:2] == [("none", 1, 0, 0), ("one", 1, 1, 4)]
    route, calls, retrievals, read = found[2]
    assert (route, calls, retrievals) == ("many", 3, 2)
    assert 2 <= read <= 4
    with pytest.raises(UsageError, match=r"trained on draft answers.*--set drafts=false"):
        build_graph("adaptive_rag", router=str(router))
    with pytest.raises(UsageError, match="route_threshold needs a trained router"):
        build_graph("adaptive_rag", route_threshold=0.1)


def test_a_router_that_is_missing_wrong_or_damaged_is_said(router: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a trained router"):
        build_graph("adaptive", route="classifier")
    with pytest.raises(UsageError, match="unless route=classifier"):
        build_graph("adaptive", router=str(router))
    with pytest.raises(UsageError, match="route_threshold needs"):
        build_graph("adaptive", route_threshold=0.1)
    broken = tmp_path / "broken"
    broken.mkdir()
    for one in router.iterdir():
        if one.is_file():
            (broken / one.name).write_bytes(one.read_bytes())
    about = json.loads((broken / "router.json").read_text("utf-8"))
    (broken / "router.json").write_text(json.dumps({**about, "columns": ["a"]}), "utf-8")
    with pytest.raises(ModelError, match="other features"):
        load_router(str(broken))
    card = json.loads((broken / "part.json").read_text("utf-8"))
    (broken / "part.json").write_text(json.dumps({**card, "kind": "linear"}), "utf-8")
    with pytest.raises(UsageError, match="is damaged"):
        build_graph("adaptive", route="classifier", router=str(broken))


def test_rows_of_outcomes_are_read_and_bad_ones_named(tmp_path: Path) -> None:
    plain = {"id": "1", "question": "Who?", "draft": "Ada.", "right": dict.fromkeys(ROUTES, True)}
    (one,) = read_rows(written(tmp_path / "a.jsonl", [plain]), "router")
    assert one == plain
    bad = written(tmp_path / "b.jsonl", [{**plain, "right": {"none": 1}}])
    with pytest.raises(UsageError, match=r"b\.jsonl:1: 'right' must say true or false"):
        read_rows(bad, "router")
    same = written(tmp_path / "c.jsonl", [{**ROWS[0], "id": str(n)} for n in range(3)])
    with pytest.raises(UsageError, match="nothing to choose by"):
        plan_training("router", same, tmp_path / "out", settings={"held_out": 0.0})


def test_changing_the_gold_answers_changes_no_feature(base: Path, tmp_path: Path) -> None:
    """What is read of a row is the question and the draft; the gold decides the label alone."""
    from ragweave.trained.judge_reading import load_encoder

    other = [{**one, "answers": ["Zebedee Quux", "1931"]} for one in outcomes()]
    files = written(tmp_path / "a.jsonl", outcomes()), written(tmp_path / "b.jsonl", other)
    first, second = (read_rows(file, "router") for file in files)
    assert [one["right"] for one in first] != [one["right"] for one in second]
    encoder = load_encoder(str(base))
    shelf = Bm25Retriever.from_documents(_documents())
    reads = []
    for rows in (first, second):
        pairs = [(one["question"], one["draft"]) for one in rows]
        reads.append(read_drafts(pairs, encoder, [looked_up(shelf, *pair) for pair in pairs]))
    assert reads[0].surface.shape[1] == len(feature_names(looks=True))
    assert np.array_equal(reads[0].surface, reads[1].surface)
    assert np.array_equal(reads[0].meaning, reads[1].meaning)


def looked_up(shelf: PassageRetriever, question: str, draft: str) -> dict[str, list[Document]]:
    """Search for all that a first look searches for."""
    return {text: shelf.find(text, k) for text, k in look_queries(question, draft).items()}


def _documents() -> list[Document]:
    return [
        Document("Ada Brenner built the bridge at Alden in 1931.", metadata={"title": "Alden"}),
        Document("The ferry at Tarn.", metadata={"title": "Ada Brenner"}),
    ]


def test_features_show_what_they_are_named_after() -> None:
    asked = "When was the builder of the bridge of Alden born?"

    def values(draft: str) -> dict[str, float]:
        return dict(zip(DRAFT_NAMES, draft_features(asked, draft), strict=True))

    dated, named = values("So the answer is: 1931."), values("So the answer is: Ada Brenner.")
    assert (dated["agrees.when_year"], dated["agrees.when_without_digit"]) == (1.0, 0.0)
    assert (named["agrees.when_year"], named["agrees.when_without_digit"]) == (0.0, 1.0)
    assert values(DOUBTED)["reasoning.hedges"] > values(KNOWN)["reasoning.hedges"]
    assert values(PUZZLE)["reasoning.distinct_share"] < values(KNOWN)["reasoning.distinct_share"]
    assert dated["question.hops"] == 2


def test_the_look_finds_the_answer_and_how_popular_it_is() -> None:
    shelf = Bm25Retriever.from_documents(_documents())
    asked = "Who built the bridge at Alden?"

    def values(draft: str) -> dict[str, float]:
        found = look_features(asked, draft, looked_up(shelf, asked, draft))
        return dict(zip(LOOK_NAMES, found, strict=True))

    right, wrong = values(KNOWN), values("So the answer is: Karl Oster.")
    assert (right["look.first_holds"], wrong["look.any_holds"]) == (1.0, 0.0)
    assert right["popularity.answer"] > wrong["popularity.answer"] == 0.0
    assert right["popularity.answer_titles"] > 0
    assert values("")["look.any_holds"] == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_texts_have_finite_features(question: str, draft: str) -> None:
    found = draft_features(question, draft)
    assert len(found) == len(DRAFT_NAMES)
    assert np.isfinite(found).all()
    assert read_draft(draft) == read_draft(f"  {draft} ")


@given(st.text(max_size=80), st.text(max_size=80))
def test_words_are_hashed_alike_and_length_does_not_count(question: str, draft: str) -> None:
    one, two = hashed_words(question, draft), hashed_words(question.upper().lower(), draft)
    assert (one.columns < WORDS).all()
    for mark in (one, two):
        length = float(np.square(mark.values).sum())
        assert min(abs(length - wanted) for wanted in (0, 1, 2)) < 1e-9
    assert np.array_equal(one.columns, hashed_words(f"  {question} ", draft).columns)


def test_words_are_read_where_nothing_else_differs() -> None:
    said = ["Who painted the ferry?", "Who sang of the ferry?"] * 10
    labels = np.array([[at % 2 == 0, True, True] for at in range(20)])
    read = RouterRead(np.zeros((20, 1)), np.zeros((20, 2)), [hashed_words(one, "") for one in said])
    for share, told in ((0.5, True), (0.0, False)):
        settings = RouterSettings(word_share=share)
        chances = fit_router(read, labels, settings).probabilities(read)[:, 0]
        assert bool(chances[::2].min() > chances[1::2].max() + 0.01) is told
        assert chances.mean() == pytest.approx(0.5, abs=0.02)
    with pytest.raises(UsageError, match="word_share between 0 and 1"):
        RouterSettings(word_share=2.0)


def test_a_router_of_before_words_still_opens(router: Path, tmp_path: Path) -> None:
    for one in router.iterdir():
        if one.is_file():
            (tmp_path / one.name).write_bytes(one.read_bytes())
    arrays = load_file(tmp_path / "router.safetensors")
    save_file({name: one for name, one in arrays.items() if name != "words"}, tmp_path / "w")
    (tmp_path / "w").rename(tmp_path / "router.safetensors")
    with pytest.raises(ModelError, match=r"incomplete \(words\)"):
        load_router(str(tmp_path))
    card = json.loads((tmp_path / "part.json").read_text("utf-8"))
    del card["settings"]["word_share"]
    (tmp_path / "part.json").write_text(json.dumps(card), "utf-8")
    assert load_router(str(tmp_path)).choose("Who built it?", KNOWN).route in ROUTES


def test_a_dearer_route_must_add_more_than_the_threshold() -> None:
    chances = {"none": 0.4, "one": 0.45, "many": 0.62}
    assert chosen_route(chances, 0.0) == "many"
    assert chosen_route(chances, 0.18) == "many"
    assert chosen_route(chances, 0.3) == "none"
    assert chosen_route({"none": 0.4, "one": 0.6, "many": 0.65}, 0.1) == "one"


def test_the_threshold_keeps_to_the_share_and_folds_keep_questions_together() -> None:
    chances = np.array([[0.9, 0.9, 0.9], [0.2, 0.4, 0.4], [0.2, 0.5, 0.5], [0.2, 0.3, 0.3]])
    right = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1]], dtype=bool)
    for most, retrieved in ((0.25, 1), (0.5, 2), (1.0, 3)):
        threshold = best_threshold(chances, right, most)
        assert (routes_of(chances, threshold) > 0).sum() == retrieved
    fold = folds_of(["a", "b", "a", "c", "b"], 2, 0)
    assert (fold[0], fold[1]) == (fold[2], fold[4])


def test_the_threshold_keeps_to_the_share_where_retrieval_adds_much_to_most_questions() -> None:
    chances = np.array([[0.1, 0.9, 0.9], [0.1, 0.8, 0.8], [0.1, 0.7, 0.7], [0.1, 0.6, 0.6]])
    right = np.array([[False, True, True]] * 4)
    for most, retrieved in ((0.1, 0), (0.25, 1), (0.5, 2), (0.75, 3), (1.0, 4)):
        threshold = best_threshold(chances, right, most)
        assert (routes_of(chances, threshold) > 0).sum() == retrieved


def test_an_answer_right_by_luck_moves_no_threshold() -> None:
    chances = np.array([[0.2, 0.6, 0.6]] * 8 + [[0.3, 0.5, 0.5]] * 8)
    right = np.array([[False, True, True]] * 8 + [[False, False, False]] * 8)
    right[8:11] = [[True, False, False], [True, False, False], [False, True, True]]
    assert (routes_of(chances, best_threshold(chances, right, 1.0)) > 0).sum() == 16
    right[8:] = [True, False, False]
    assert (routes_of(chances, best_threshold(chances, right, 1.0)) > 0).sum() == 8


def test_a_gates_threshold_is_chosen_on_labelled_questions() -> None:
    right = [(True, False), (True, True), (False, True), (False, True), (False, False)]
    values = [0.1, 0.2, 0.6, 0.9, 1.4]
    assert gate_threshold(values, right) == 0.2
    assert gate_threshold(values, right, retrieve_at_most=0.4) == 0.6
    assert gate_threshold([0.0, 0.0, 1.0], [(False, True)] * 3, retrieve_at_most=1.0) == -1.0
    assert gate_threshold([-3.0, 1.0], [(False, True)] * 2, retrieve_at_most=1.0) < -3.0
    with pytest.raises(UsageError, match="one uncertainty and two labels"):
        gate_threshold([0.1], [])
