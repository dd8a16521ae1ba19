"""Linear judges end to end, on a tiny random BERT as the embedding model."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.scripted import ListRetriever, ScriptedChat
from tests.tiny_encoder import make_tiny_encoder

from ragweave import build_graph
from ragweave.errors import ModelError, UsageError
from ragweave.trained import read_card, write_card
from ragweave.training.job import CHECKPOINTS, Job, TrainingStoppedError, Watch, changed
from ragweave.training.measures import NEUTRAL, calibrate
from ragweave.training.rows import Split
from ragweave.training.train import DEFAULT_KIND, plan_training, train_part

pytest.importorskip("sentence_transformers")
pytest.importorskip("sklearn")

from ragweave.trained.chat import PartChat
from ragweave.trained.judge import load_linear_scorer
from ragweave.trained.judge_reading import COLUMNS, load_encoder
from ragweave.training.encoders.kept_rows import KEPT
from ragweave.training.encoders.linear import RECIPE, _calibrated

PLACES = ["Paris", "Rome", "London", "France", "Italy", "England"]
SURE = "William Shakespeare was born in {}. He was a poet."
REFUSALS = ["I'm sorry, I do not know when he was born in {}.", "I cannot answer that."]
ROWS = [
    {
        "id": str(index),
        "question": f"Who was poet {index} in {place} ?",
        "draft": (SURE if index % 2 else REFUSALS[index % 4 // 2]).format(place),
        "known": bool(index % 2),
    }
    for index, place in enumerate(PLACES * 8)
]
QUESTION = "Who was the poet of London ?"
PAIRS = [*((row["question"], row["draft"]) for row in ROWS), (QUESTION, ""), ("", "")]


class Looking(Watch):
    """Keeps what it is told; wants to stop after a step, if asked to."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.steps, self.lines, self._stop_after = [], [], stop_after

    def step(self, done, total, loss):
        self.steps.append((done, total))
        self.stop_wanted = len(self.steps) == self._stop_after

    def say(self, line):
        self.lines.append(line)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_tiny_encoder(tmp_path_factory.mktemp("base"))


def written(folder: Path, rows) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "judge.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def planned(folder: Path, base: Path, rows=ROWS, **settings):
    settings = {"base": str(base), "folds": 3, "repeats": 2, "device": "cpu", **settings}
    return plan_training("judge", written(folder / "rows", rows), folder / "p", settings=settings)


@pytest.fixture(scope="module")
def judge(base, tmp_path_factory):
    """A judge that has learnt that refusals are unknown: (folder, its card, what was told)."""
    plan, watch = planned(tmp_path_factory.mktemp("judge"), base, held_out=0.25), Looking()
    return plan.folder, train_part(plan, watch=watch), watch


def test_it_is_the_kind_that_judges_get():
    assert DEFAULT_KIND["judge"] == "linear"


def test_refusals_are_learnt_to_be_unknown(judge):
    folder, card, watch = judge
    assert (card.role, card.kind) == ("judge", "linear")
    assert card.metrics["auc"]["mean"] == card.metrics["accuracy"]["mean"] == 1.0
    assert card.metrics["auc"]["n"] == card.data["held_out"]["rows"] == 12
    assert card.metrics["out_of_fold_auc"]["mean"] > 0.99
    assert watch.steps[-1] == (48, 48)
    assert "loss 0." in watch.lines[-1]
    said = [chance > card.threshold for chance in load_linear_scorer(folder).score(PAIRS)]
    assert said[: len(ROWS)] == [row["known"] for row in ROWS]


def test_a_part_is_safetensors_and_json_alone(judge):
    folder, _, _ = judge
    names = {path.name for path in folder.iterdir()}
    assert names == {"judge.safetensors", "judge.json", "part.json", "questions.json", "README.md"}


def test_scores_do_not_depend_on_their_company(judge):
    scorer = load_linear_scorer(judge[0])
    together = scorer.score(PAIRS)
    alone = [chance for pair in PAIRS for chance in scorer.score([pair])]
    assert together == pytest.approx(alone, abs=1e-4)
    padded = scorer.score([(f" {question}\n", f"\t{draft} ") for question, draft in PAIRS])
    assert padded == pytest.approx(together, abs=1e-4)
    assert scorer.score([]) == []


def test_a_saved_and_reloaded_part_gives_what_was_fitted(base, tmp_path):
    """The held-out measures come from the fit, before anything was written."""
    plan = planned(tmp_path, base, held_out=0.5, folds=2, repeats=1)
    card = train_part(plan)
    held_out = plan.rows.held_out
    scores = load_linear_scorer(plan.folder).score([(r["question"], r["draft"]) for r in held_out])
    hits = [
        (one > card.threshold) == row["known"] for one, row in zip(scores, held_out, strict=True)
    ]
    assert card.metrics["accuracy"]["mean"] == pytest.approx(np.mean(hits), abs=1e-4)
    again = load_linear_scorer(plan.folder)
    assert again.score(PAIRS) == load_linear_scorer(plan.folder).score(PAIRS)


def test_the_dry_run_names_every_feature(base, tmp_path):
    shown = planned(tmp_path, base, held_out=0.0).preview(2)
    assert [one.target for one in shown] == ["not known", "known"]
    lines = shown[0].input.splitlines()
    assert [line.split(" = ")[0] for line in lines[: len(COLUMNS)]] == list(COLUMNS)
    assert "first.refusal = 1.000" in lines
    assert lines[-2:] == [
        "vector of: Who was poet 0 in Paris ?",
        "vector of: Who was poet 0 in Paris ? I'm sorry, I do not know when he was born in Paris.",
    ]
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_training_reads_no_row_twice_and_ends_the_same(base, tmp_path, stop):
    whole = planned(tmp_path / "whole", base)
    train_part(whole)
    plan = planned(tmp_path / "halves", base)
    with pytest.raises(KeyboardInterrupt):
        train_part(plan, watch=Looking(stop_after=stop))
    assert not (plan.folder / "judge.safetensors").exists()
    rest = Looking()
    train_part(plan, resume=True, watch=rest)
    assert [done for done, _ in rest.steps] == [16, 32, 48][stop:]
    again, before = (load_linear_scorer(one.folder).score(PAIRS) for one in (plan, whole))
    assert again == before
    assert not (plan.folder / CHECKPOINTS).exists()


@pytest.mark.parametrize(
    ("given", "device"), [({}, "cpu"), ({"device": "auto"}, "auto"), ({"device": "cpu:0"}, "cpu:0")]
)
def test_how_to_compute_stays_as_it_was_where_resuming_says_nothing(base, tmp_path, given, device):
    plan = planned(tmp_path, base)
    with pytest.raises(KeyboardInterrupt):
        train_part(plan, watch=Looking(stop_after=1))
    settings = {"base": str(base), "folds": 3, "repeats": 2, **given}
    (rows,) = plan.files
    card = train_part(plan_training("judge", rows, plan.folder, settings=settings), resume=True)
    assert card.settings["device"] == device


def test_rows_that_were_half_written_are_read_again(base, tmp_path):
    plan = planned(tmp_path, base)
    with pytest.raises(KeyboardInterrupt):
        train_part(plan, watch=Looking(stop_after=2))
    kept = plan.folder / CHECKPOINTS / KEPT
    kept.write_bytes(kept.read_bytes()[:1000])
    rest = Looking()
    train_part(plan, resume=True, watch=rest)
    assert [done for done, _ in rest.steps] == [16, 32, 48]


class Filling(Looking):
    """Lets no file grow beyond 2 kB from some moment on: a disk that is full."""

    def __init__(self, moment):
        super().__init__()
        self._moment = moment

    def step(self, done, total, loss):
        super().step(done, total, loss)
        self._fill("rows" if done == total else "")

    def say(self, line):
        super().say(line)
        self._fill("part")

    def _fill(self, moment):
        if moment == self._moment:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("moment", "said", "read_again"),
    [("rows", "nothing had been kept", [16, 32, 48]), ("part", "what was read is kept", [])],
)
def test_a_full_disk_stops_and_says_what_is_kept(base, tmp_path, moment, said, read_again):
    """Full when the rows are to be kept, or when the part is to be written."""
    plan, before = planned(tmp_path, base), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(TrainingStoppedError, match=said):
            train_part(plan, watch=Filling(moment))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    rest = Looking()
    train_part(plan, resume=moment == "part", watch=rest)
    assert [done for done, _ in rest.steps] == read_again
    assert len(load_linear_scorer(plan.folder).score(PAIRS[:2])) == 2


def test_vectors_that_are_no_numbers_stop_the_training(base, tmp_path):
    from safetensors.torch import load_file, save_file

    broken = shutil.copytree(base, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    name = "embeddings.LayerNorm.bias"
    weights[name] = weights[name] * float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(TrainingStoppedError, match="not finite"):
        train_part(planned(tmp_path, broken))


def test_one_class_alone_is_refused(base, tmp_path):
    known = [row for row in ROWS if row["known"]]
    with pytest.raises(UsageError, match="all 24 rows are known; a judge needs both"):
        planned(tmp_path, base, known, held_out=0.0)
    settings = changed(RECIPE.defaults("judge"), {"base": str(base)})
    job = Job(
        role="judge", kind="linear", rows=Split(known, []), settings=settings, folder=tmp_path
    )
    with pytest.raises(UsageError, match="all 24 drafts to train on are labelled 'known'"):
        RECIPE.fit(job)


def test_too_few_questions_to_calibrate_on_leave_the_threshold_in_the_middle(base, tmp_path):
    watch = Looking()
    card = train_part(planned(tmp_path, base, ROWS[:2], held_out=0.0), watch=watch)
    assert (card.threshold, dict(card.metrics)) == (NEUTRAL, {})
    assert "too few questions" in watch.lines[0]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("epochs", 5, "trained without epochs"),
        ("lora_rank", 4, "trained without lora_rank"),
        ("surface_strength", 0, "surface_strength must be above 0"),
        ("folds", 1, "folds must be at least 2"),
    ],
)
def test_settings_without_effect_or_sense_are_refused(base, tmp_path, name, value, said):
    with pytest.raises(UsageError, match=said):
        planned(tmp_path, base, **{name: value})


def test_a_base_that_is_not_here_is_named(tmp_path):
    with pytest.raises(ModelError, match="nobody/nothing is not on this machine"):
        train_part(planned(tmp_path, Path("nobody/nothing")))


def test_a_base_that_is_a_part_is_refused(tmp_path):
    from tests.tiny_parts import finish

    finish(tmp_path / "spans", "filter", "span-encoder")
    with pytest.raises(UsageError, match="is a span-encoder, and a linear begins from an embed"):
        train_part(planned(tmp_path, tmp_path / "spans"))
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("using", [False, True])
def test_a_base_whose_weights_do_not_fit_is_refused(judge, base, tmp_path, using):
    """Before training, and where a part is used: what is missing would be drawn anew each time."""
    from safetensors.torch import load_file, save_file

    odd = shutil.copytree(base, tmp_path / "odd")
    weights = load_file(odd / "model.safetensors")
    save_file({f"inner.{name}": one for name, one in weights.items()}, odd / "model.safetensors")
    folder = copied(judge, tmp_path)
    card = read_card(folder)
    write_card(folder, type(card)(**{**vars(card), "base": str(odd)}))
    with pytest.raises(ModelError, match="weights are incomplete"):
        load_linear_scorer(folder) if using else train_part(planned(tmp_path, odd))


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_a_bases_weights_are_read_into_memory_once(base, tmp_path, monkeypatch, prefix):
    from safetensors.torch import load_file, save_file

    def read_again(*_args, **_options):
        raise AssertionError("read again")

    folder = shutil.copytree(base, tmp_path / "base")
    weights = load_file(folder / "model.safetensors")
    kept = {f"{prefix}{name}": one for name, one in weights.items() if "pooler" not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    monkeypatch.setattr("ragweave.trained.encoders.read_encoder", read_again)
    assert load_encoder(str(folder)).dimension == 32
    kept.popitem()
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(AssertionError, match="read again"):
        load_encoder(str(folder))


def copied(judge, tmp_path) -> Path:
    return Path(shutil.copytree(judge[0], tmp_path / "copy"))


def test_another_encoder_is_refused(judge, tmp_path):
    folder = copied(judge, tmp_path)
    about = json.loads((folder / "judge.json").read_text())
    (folder / "judge.json").write_text(json.dumps({**about, "dimension": 384}))
    with pytest.raises(ModelError, match="vectors of 384 dimensions, but its base model gives 32"):
        load_linear_scorer(folder)
    (folder / "judge.json").write_text(json.dumps({**about, "columns": ["one"]}))
    with pytest.raises(ModelError, match="trained on other features"):
        load_linear_scorer(folder)
    (folder / "judge.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="weights can't be read"):
        load_linear_scorer(folder)


def test_code_and_pickles_are_refused(judge, tmp_path):
    folder = copied(judge, tmp_path)
    (folder / "model.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(UsageError, match="may be a pickle"):
        load_linear_scorer(folder)


def test_a_base_with_pickled_weights_is_refused(judge, base, tmp_path):
    pickled = shutil.copytree(base, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    folder = copied(judge, tmp_path)
    card = read_card(folder)
    write_card(folder, type(card)(**{**vars(card), "base": str(pickled)}))
    with pytest.raises(UsageError, match=r"has no model\.safetensors"):
        load_linear_scorer(folder)


@pytest.mark.parametrize(("draft", "known"), [(SURE.format("London"), True), (REFUSALS[1], False)])
def test_slimplm_branches_by_what_a_linear_judge_says(judge, draft, known):
    graph = build_graph(
        "slimplm",
        model=ScriptedChat(replies=["Shakespeare"]),
        proxy=ScriptedChat(replies=[draft]),
        judge=PartChat(str(judge[0])),
        retriever=ListRetriever(documents=[]),
        rewrite=False,
    )
    state = graph.invoke({"question": QUESTION})
    assert state["usage"]["retrievals"] == int(not known)
    assert state["usage"]["by_role"]["judge"]["input_tokens"] > 5


@pytest.mark.parametrize("seed", range(4))
def test_repeats_that_agree_calibrate_as_one(tmp_path, seed):
    """With odd classes, a row's repeats would stand in both halves if each counted as a row."""
    random = np.random.default_rng(seed)
    labels = np.arange(101) < 51
    logits = np.where(labels, 1.0, -1.0) + random.normal(scale=2.0, size=101)
    settings = changed(RECIPE.defaults("judge"), {})
    job = Job(role="judge", kind="linear", rows=Split([], []), settings=settings, folder=tmp_path)
    found, _, _ = _calibrated(job, np.tile(logits, (4, 1)), labels)
    assert found == calibrate(logits.tolist(), labels.tolist())
