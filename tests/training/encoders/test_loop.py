"""The plain training: loss falls, resumes to the bit, stops before it spoils anything."""

from __future__ import annotations

import resource
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweave.training.encoders.loop import TrainingTask, rate, run_training, total_steps
from ragweave.training.encoders.pairs import SmallSettings
from ragweave.training.job import TrainingStoppedError, Watch

torch = pytest.importorskip("torch")

ITEMS = [(float(x), 3.0 * x - 1.0) for x in range(-5, 5)]


class Looking(Watch):
    def __init__(self, act=lambda watch, done: None):
        super().__init__()
        self.losses, self.lines, self._act = [], [], act

    def step(self, done, total, loss):
        self.losses.append(loss)
        self._act(self, done)

    def say(self, line):
        self.lines.append(line)


def stop_after(step):
    def act(watch, done):
        watch.stop_wanted = done == step

    return Looking(act)


def task(seen=None, loss=None, groups=False, **told):
    torch.manual_seed(4)
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )

    def squares(items):
        if seen is not None:
            seen.append(list(items))
        given, wanted = (torch.tensor(one).unsqueeze(1) for one in zip(*items, strict=True))
        return ((model(given) - wanted) ** 2).mean()

    given = {"epochs": 4.0, "learning_rate": 0.05, "batch": 4, "device": "cpu", "save_every": 2}
    parts = [{"params": model[0].parameters(), "lr": 0.01}, {"params": model[3].parameters()}]
    return TrainingTask(
        model=model,
        items=ITEMS,
        loss=loss or squares,
        settings=SmallSettings(**{**given, **told}),
        groups=parts if groups else None,
        measure=lambda: {"weight": model[0].weight.abs().sum().item()},
    )


def weights(made):
    return [one.detach().clone() for one in made.model.parameters()]


def same(first, second):
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_the_loss_falls_and_each_epoch_sees_every_item_in_another_order(tmp_path):
    seen: list[list[tuple[float, float]]] = []
    watch, made = Looking(), task(seen, epochs=20.0)
    history = run_training(made, tmp_path / "checkpoints", watch)
    assert sum(watch.losses[-3:]) < sum(watch.losses[:3]) / 2
    epochs = [
        [one for batch in seen[index : index + 3] for one in batch] for index in range(0, 60, 3)
    ]
    assert all(sorted(epoch) == ITEMS for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 15
    assert list(history) == [str(epoch) for epoch in range(1, 21)]
    assert watch.lines[0].startswith("epoch 1: weight ")


def test_items_of_like_length_make_a_batch_and_each_is_seen_once(tmp_path):
    seen: list[list[tuple[float, float]]] = []
    items = [(float(index), 0.0) for index in range(1, 41)]
    made = task(seen, batch=8, epochs=3.0)
    run_training(
        TrainingTask(**{**vars(made), "items": items, "length": lambda one: one[0] ** 4}),
        tmp_path,
        Watch(),
    )
    epochs = [seen[index : index + 5] for index in range(0, 15, 5)]
    for epoch in epochs:
        assert sorted(one for batch in epoch for one in batch) == items
        assert all(max(batch)[0] - min(batch)[0] <= 12 for batch in epoch)
    assert len({tuple(map(tuple, epoch)) for epoch in epochs}) == 3


@pytest.mark.parametrize("stop", [1, 3, 7, 12])
def test_a_resumed_training_equals_an_undisturbed_one(tmp_path, stop):
    whole = task(groups=True)
    wanted = run_training(whole, tmp_path / "whole", Watch())
    with pytest.raises(KeyboardInterrupt):
        run_training(task(groups=True), tmp_path / "halves", stop_after(stop))
    rest, watch = task(groups=True), Looking()
    torch.manual_seed(99)
    found = run_training(rest, tmp_path / "halves", watch, resume=True)
    assert len(watch.losses) == 12 - stop
    assert same(weights(rest), weights(whole))
    assert found == wanted


@pytest.mark.parametrize("stop", [3, 12])
def test_a_stop_while_measuring_what_was_stopped_loses_no_measure(tmp_path, stop):
    """Stopped in an epoch's last step, then again before anything is measured."""
    wanted = run_training(task(), tmp_path / "whole", Watch())
    with pytest.raises(KeyboardInterrupt):
        run_training(task(), tmp_path / "halves", stop_after(stop))
    again, impatient = Looking(), task()
    again.stop_wanted = True
    impatient = TrainingTask(**{**vars(impatient), "measure": lambda: None})
    with pytest.raises(KeyboardInterrupt):
        run_training(impatient, tmp_path / "halves", again, resume=True)
    assert again.losses == []
    assert run_training(task(), tmp_path / "halves", Watch(), resume=True) == wanted


def test_a_resumed_training_may_compute_in_smaller_parts(tmp_path):
    made = [task(micro_batch=4), task(micro_batch=4), task(micro_batch=1)]
    for one in made:
        one.model[1].p = 0.0
    whole, first, rest = made
    run_training(whole, tmp_path / "whole", Watch())
    with pytest.raises(KeyboardInterrupt):
        run_training(first, tmp_path / "halves", stop_after(5))
    run_training(rest, tmp_path / "halves", Watch(), resume=True)
    for one, other in zip(weights(whole), weights(rest), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_one_whole_checkpoint_is_kept(tmp_path):
    run_training(task(), tmp_path, Watch())
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint-12"]


def test_an_unfinished_checkpoint_is_passed_over(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_training(task(), tmp_path, stop_after(5))
    shutil.copytree(tmp_path / "checkpoint-5", tmp_path / "checkpoint-9")
    watch = Looking()
    run_training(task(), tmp_path, watch, resume=True)
    assert len(watch.losses) == 12 - 5


def test_micro_batches_add_up_to_the_batch(tmp_path):
    one, other = task(micro_batch=4), task(micro_batch=3)
    for made in (one, other):
        made.model[1].p = 0.0
        run_training(made, tmp_path / str(id(made)), Watch())
    for first, second in zip(weights(one), weights(other), strict=True):
        assert torch.allclose(first, second, atol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_before_the_weights_take_it_in(tmp_path, bad):
    made = task()
    calls = iter(range(100))
    whole = made.loss

    def loss(items):
        return whole(items) * (bad if next(calls) == 4 else 1.0)

    spoiled = TrainingTask(**{**vars(made), "loss": loss})
    with pytest.raises(TrainingStoppedError, match=r"in step 5: .*checkpoint-4; --resume") as told:
        run_training(spoiled, tmp_path, Watch())
    assert "start again in another --out with a lower learning_rate" in str(told.value)
    assert str(told.value).endswith("with the same settings")
    assert all(bool(torch.isfinite(one).all()) for one in weights(made))
    watch = Looking()
    run_training(task(), tmp_path, watch, resume=True)
    assert len(watch.losses) == 8


def test_a_gradient_that_is_no_number_stops_too(tmp_path):
    made = task()
    spoiled = TrainingTask(
        **{**vars(made), "loss": lambda items: (made.model(torch.zeros(1, 1)) * 0).sqrt().sum()}
    )
    with pytest.raises(TrainingStoppedError, match="the gradient is not finite in step 1") as told:
        run_training(spoiled, tmp_path, Watch())
    assert "start again with a lower learning_rate" in str(told.value)


@pytest.mark.parametrize(
    ("step", "advice"),
    [(1, "lower micro_batch or max_input, or set"), (6, "lower micro_batch, or set")],
)
def test_full_gpu_memory_is_met_with_advice_that_can_be_taken(tmp_path, step, advice):
    """A training that is resumed keeps its max_input."""
    made, calls = task(), iter(range(1, 100))

    def loss(items):
        if next(calls) == step:
            raise torch.OutOfMemoryError
        return made.loss(items)

    with pytest.raises(TrainingStoppedError, match=f"{advice} gradient_checkpointing=true"):
        run_training(TrainingTask(**{**vars(made), "loss": loss}), tmp_path, Watch())


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(watch, done):
        if done == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    try:
        with pytest.raises(TrainingStoppedError, match="checkpoint-2; --resume continues from it"):
            run_training(task(), tmp_path, Looking(fill))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint-2"]


@settings(max_examples=30)
@given(st.integers(1, 500), st.floats(0, 0.99))
def test_the_rate_rises_once_and_falls_to_the_end(total, warmup):
    shares = [rate(step, total, warmup) for step in range(total)]
    assert all(0 < share <= 1 for share in shares)
    peak = shares.index(max(shares))
    assert shares[: peak + 1] == sorted(shares[: peak + 1])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)


@given(st.integers(1, 100), st.floats(0.1, 5), st.integers(1, 40))
def test_there_is_always_a_step(items, epochs, batch):
    told = SmallSettings(epochs=epochs, batch=batch)
    assert total_steps(items, told) >= 1
