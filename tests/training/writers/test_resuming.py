"""Trainings that are stopped, killed or run into trouble, and go on."""

from __future__ import annotations

import resource
import shutil

import pytest
import torch
from safetensors.torch import load_file
from tests.training.writers import tiny

from ragweave.training.job import TrainingStoppedError
from ragweave.training.train import recipe_of
from ragweave.training.trainer import checkpoints
from ragweave.training.writers import examples, fit

KINDS = ["seq2seq", "causal-lora"]
FILES = {"seq2seq": "model.safetensors", "causal-lora": "adapter_model.safetensors"}
RUN = {
    "max_output": 4,
    "epochs": 2.0,
    "batch": 2,
    "micro_batch": 1,
    "learning_rate": 1e-3,
    "lora_dropout": 0.1,
}


def run(base, folder, kind, **more):
    job = tiny.job(base, folder, "generator", kind, **{**RUN, **more})
    return recipe_of(kind, "generator").fit(job)


def same_weights(folder, other_folder, kind):
    one, other = load_file(folder / FILES[kind]), load_file(other_folder / FILES[kind])
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Bases with dropout, so that going on must restore the random state too."""
    made = {
        "seq2seq": tiny.seq2seq_base(tmp_path_factory.mktemp("t5"), num_layers=1, dropout_rate=0.1),
        "causal-lora": tiny.causal_base(tmp_path_factory.mktemp("llama"), num_hidden_layers=1),
    }
    return made.__getitem__


@pytest.fixture(scope="module")
def undisturbed(base, tmp_path_factory):
    """The same training without any trouble: its losses, and its folder."""
    made = {}

    def whole(kind):
        if kind not in made:
            made[kind] = tiny.Losses()
            made[kind].folder = tmp_path_factory.mktemp("whole")
            run(base(kind), made[kind].folder, kind, watch=made[kind])
        return made[kind]

    return whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [3, 4])
def test_a_stopped_training_goes_on_as_if_it_had_not_been(base, undisturbed, tmp_path, kind, step):
    """Step 3 lies within an epoch, step 4 at its end."""
    measured = {"held_out": tiny.silver_rows(3)}
    parted = tiny.Losses(stop_after=step)
    with pytest.raises(KeyboardInterrupt):
        run(base(kind), tmp_path / "parted", kind, watch=parted, **measured)
    assert checkpoints.newest(tmp_path / "parted" / "checkpoints").name == f"checkpoint-{step}"
    assert not (tmp_path / "parted" / FILES[kind]).exists()
    rest = tiny.Losses()
    fitted = run(base(kind), tmp_path / "parted", kind, watch=rest, resume=True, **measured)
    assert parted.losses + rest.losses == undisturbed(kind).losses
    same_weights(undisturbed(kind).folder, tmp_path / "parted", kind)
    assert fitted.metrics["exact_match_rows"] == 3


def test_a_killed_trainings_half_written_checkpoint_is_passed_over(base, tmp_path):
    kind, folder = "seq2seq", tmp_path / "part"
    with pytest.raises(KeyboardInterrupt):
        run(base(kind), folder, kind, watch=tiny.Losses(stop_after=3))
    good = folder / "checkpoints" / "checkpoint-3"
    for step, kept in ((4, b""), (5, (good / "trainer_state.json").read_bytes()[:-9])):
        half = folder / "checkpoints" / f"checkpoint-{step}"
        shutil.copytree(good, half)
        (half / "trainer_state.json").write_bytes(kept)
    assert checkpoints.newest(good.parent) == good
    rest = tiny.Losses()
    run(base(kind), folder, kind, watch=rest, resume=True)
    assert len(rest.losses) == 5
    assert [one.name for one in good.parent.iterdir()] == ["checkpoint-8"]


def test_resuming_before_any_checkpoint_begins_anew(base, tmp_path):
    rest = tiny.Losses()
    run(base("seq2seq"), tmp_path / "part", "seq2seq", watch=rest, resume=True, epochs=1.0)
    assert len(rest.losses) == 4


class Poison(tiny.Losses):
    """Spoils a weight after a step."""

    def __init__(self, model, after):
        super().__init__()
        self.model, self.after = model, after

    def step(self, done, total, loss):
        super().step(done, total, loss)
        if done == self.after:
            weight = next(one for one in self.model[0].parameters() if one.requires_grad)
            weight.data.view(-1)[0] = float("nan")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("save_every", [1, 2])
def test_a_loss_that_is_no_number_keeps_the_last_good_checkpoint(
    base, tmp_path, monkeypatch, kind, save_every
):
    """Step 3 spoils a weight: a checkpoint due then is not written, and step 4 never taken."""
    caught = []

    def catch(model, tokenizer, greedy=fit.greedy):
        caught.append(model)
        return greedy(model, tokenizer)

    monkeypatch.setattr(fit, "greedy", catch)
    watch = Poison(caught, 3)
    with pytest.raises(TrainingStoppedError, match=r"is not finite.*checkpoint-2; --resume"):
        run(base(kind), tmp_path / "part", kind, watch=watch, save_every=save_every)
    last = checkpoints.newest(tmp_path / "part" / "checkpoints")
    assert last.name == "checkpoint-2"
    assert all(torch.isfinite(one).all() for one in load_file(last / FILES[kind]).values())
    assert not (tmp_path / "part" / FILES[kind]).exists()
    rest = tiny.Losses()
    run(base(kind), tmp_path / "part", kind, watch=rest, resume=True)
    assert len(rest.losses) == 6


def test_a_learning_rate_out_of_all_bounds_is_named_as_the_cause(base, tmp_path):
    with pytest.raises(TrainingStoppedError, match=r"is not finite.*learning_rate.*no checkpoint"):
        run(base("seq2seq"), tmp_path / "part", "seq2seq", learning_rate=1e38)


class SmallFiles(tiny.Losses):
    """Lets no file grow beyond some bytes once a step is done: a full disk, as far as writers see."""

    def __init__(self, after, size):
        super().__init__()
        self.after, self.size = after, size

    def step(self, done, total, loss):
        super().step(done, total, loss)
        if done == self.after:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, hard))


@pytest.fixture
def _files_grow_again():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_files_grow_again")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2_000, 100_000])
def test_a_full_disk_keeps_the_last_good_checkpoint(base, undisturbed, tmp_path, kind, size):
    """2,000 bytes stop the weights, 100,000 those of T5 or the optimizer's numbers."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    watch = SmallFiles(after=3, size=size)
    with pytest.raises(TrainingStoppedError, match=r"disk is full.*checkpoint-2; --resume"):
        run(base(kind), tmp_path / "part", kind, watch=watch, save_every=2)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    folder = tmp_path / "part" / "checkpoints"
    assert [one.name for one in folder.glob("checkpoint*")] == ["checkpoint-2"]
    rest = tiny.Losses()
    run(base(kind), tmp_path / "part", kind, watch=rest, resume=True)
    assert watch.losses + rest.losses[len(watch.losses) - 2 :] == undisturbed(kind).losses
    same_weights(undisturbed(kind).folder, tmp_path / "part", kind)


@pytest.mark.parametrize("kind", KINDS)
def test_small_micro_batches_take_the_same_steps(base, tmp_path, kind):
    """Gradients of several micro-batches add up to those of the batch; no dropout here."""
    still = {"batch": 4, "lora_dropout": 0.0, "epochs": 1.0}
    plain = tiny.BASES[kind](tmp_path / "base")
    at_once, parted, again = tiny.Losses(), tiny.Losses(), tiny.Losses()
    run(plain, tmp_path / "a", kind, watch=at_once, micro_batch=4, **still)
    run(plain, tmp_path / "b", kind, watch=parted, micro_batch=3, **still)
    run(
        plain,
        tmp_path / "c",
        kind,
        watch=again,
        micro_batch=4,
        gradient_checkpointing=True,
        **still,
    )
    assert parted.losses == pytest.approx(at_once.losses, rel=1e-4)
    assert again.losses == pytest.approx(at_once.losses, rel=1e-4)


class StopAfterMeasures(tiny.Losses):
    """Wants to stop once the first epoch has been measured."""

    def say(self, line):
        super().say(line)
        self.stop_wanted = True


class StopWhileMeasuring(tiny.Losses):
    """Wants to stop from the moment that a step is told and has been asked about."""

    def __init__(self, asked):
        super().__init__()
        self.left = asked

    @property
    def stop_wanted(self):
        self.left -= 1
        return self.left < 0

    @stop_wanted.setter
    def stop_wanted(self, value):
        """Is asked once a step, and then before each part of the rows that are measured."""


MANY = {"held_out": tiny.silver_rows(5)}
"""Measured in two parts, with a look at the wish to stop before each."""


@pytest.fixture(scope="module", autouse=True)
def _small_parts():
    """Measure four rows at a time, not 64: the same looks over a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples, "_CHUNK", 4)
        yield


@pytest.mark.parametrize("watch", [StopAfterMeasures(), StopWhileMeasuring(5), tiny.Losses(4)])
def test_a_wish_to_stop_at_an_epochs_end_saves_what_was_learnt(base, measured, tmp_path, watch):
    """Measures that the stop prevented are taken when the training is resumed."""
    kind = "seq2seq"
    with pytest.raises(KeyboardInterrupt):
        run(base(kind), tmp_path / "part", kind, watch=watch, **MANY)
    assert len(watch.losses) == 4
    assert checkpoints.newest(tmp_path / "part" / "checkpoints").name == "checkpoint-4"
    rest = tiny.Losses()
    fitted = run(base(kind), tmp_path / "part", kind, watch=rest, resume=True, **MANY)
    assert len(rest.losses) == 4
    assert fitted.metrics == measured(kind, 2.0)


@pytest.fixture(scope="module")
def measured(base, tmp_path_factory):
    """What an undisturbed training measures, by kind and epochs."""
    made = {}

    def metrics(kind, epochs):
        if (kind, epochs) not in made:
            folder = tmp_path_factory.mktemp("measured")
            made[kind, epochs] = run(base(kind), folder, kind, epochs=epochs, **MANY).metrics
        return made[kind, epochs]

    return metrics


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epochs", [1.0, 2.0])
@pytest.mark.parametrize("measuring", [False, True])
def test_a_training_stopped_after_its_last_step_still_tells_what_it_came_to(
    base, measured, tmp_path, kind, epochs, measuring
):
    """Stopped by the last step itself, or while its epoch is measured; then while going on, too."""
    last, folder = round(4 * epochs), tmp_path / "part"
    before = 2 * (epochs > 1) + (epochs > 1)
    watch = StopWhileMeasuring(last + before + 1) if measuring else tiny.Losses(last)
    with pytest.raises(KeyboardInterrupt):
        run(base(kind), folder, kind, watch=watch, epochs=epochs, **MANY)
    assert len(watch.losses) == last
    for asked in (0, 1):
        again = StopWhileMeasuring(asked)
        with pytest.raises(KeyboardInterrupt):
            run(base(kind), folder, kind, watch=again, epochs=epochs, resume=True, **MANY)
        assert (again.losses, again.lines) == ([], [])
        assert not (folder / FILES[kind]).exists()
    rest = tiny.Losses()
    fitted = run(base(kind), folder, kind, watch=rest, epochs=epochs, resume=True, **MANY)
    assert (rest.losses, len(rest.lines)) == ([], 1)
    assert fitted.metrics == measured(kind, epochs)
    assert (folder / FILES[kind]).exists()


def test_a_training_without_held_out_rows_stopped_after_its_last_step_is_finished(base, tmp_path):
    kind = "seq2seq"
    with pytest.raises(KeyboardInterrupt):
        run(base(kind), tmp_path / "part", kind, watch=tiny.Losses(8))
    fitted = run(base(kind), tmp_path / "part", kind, watch=tiny.Losses(), resume=True)
    assert fitted.metrics == {}
    assert (tmp_path / "part" / FILES[kind]).exists()
