"""What happens between the steps: progress, checkpoints, measures, and a wish to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragweave.training.job import Watch
from ragweave.training.running.processes import any_process, is_main, world_size

Measure = Callable[[], Mapping[str, Any] | None]

HELD_OUT = "held_out"
"""Key of the measures in the trainer's history, which checkpoints keep."""


class TrainingCallbacks:
    """Follows a trainer's steps; `callback` is what the trainer takes."""

    def __init__(self, watch: Watch, save_every: int, measure: Measure) -> None:
        """Begin.

        Args:
            watch: Who is told.
            save_every: Steps between checkpoints.
            measure: Measures on the held-out rows; None where there are none, or when broken off.
        """
        self.stopped = False
        """Whether somebody wanted to stop; a checkpoint has been saved then."""
        self._watch, self._save_every, self._measure = watch, save_every, measure

    def callback(self) -> Any:
        """Return the callback of transformers' trainers."""
        from transformers import TrainerCallback

        callbacks = self

        class Callback(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.began(cpu=args.use_cpu)

            def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.logged(state, control, more.get("logs") or {})

            def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.stepped(state, control)

            def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.ended_epoch(state, control)

        return Callback()

    def began(self, *, cpu: bool) -> None:
        """Tell of GPUs that are left unused (`arguments.one_gpu`)."""
        import torch

        if not cpu and world_size() == 1 and torch.cuda.device_count() > 1:
            self._watch.say(
                "one GPU is used; `accelerate launch -m ragweave train …` uses them all"
            )

    def logged(self, state: Any, control: Any, logs: Mapping[str, Any]) -> None:
        """Tell the last step's loss; stop where that is wanted. Trainers log before they save."""
        if "loss" not in logs:
            return
        if is_main():
            self._watch.step(state.global_step, state.max_steps, float(logs["loss"]))
        if any_process(self._watch.stop_wanted):
            self.stopped = control.should_training_stop = control.should_save = True

    def stepped(self, state: Any, control: Any) -> None:
        """Save where a checkpoint is due; an epoch's last step is saved at the epoch's end."""
        if state.global_step % self._save_every == 0 and not float(state.epoch).is_integer():
            control.should_save = state.global_step < state.max_steps

    def ended_epoch(self, state: Any, control: Any) -> None:
        """Measure, and save with the measures."""
        if self.stopped:
            return
        self._look(state)
        if any_process(self._watch.stop_wanted):
            self.stopped = control.should_training_stop = True
        control.should_save = True

    def finish(self, state: Any) -> None:
        """Measure the last epoch, if a wish to stop had kept it from that.

        A training that was stopped after its last step has no epoch left to end when it goes on.
        """
        if self.stopped or _name(state.epoch) in history(state):
            return
        self.stopped = not self._look(state) and any_process(self._watch.stop_wanted)

    def _look(self, state: Any) -> bool:
        """Measure and tell; return whether there are measures, which is so in all processes."""
        measured = self._measure()
        if not measured:
            return False
        state.log_history.append(
            {"step": state.global_step, "epoch": state.epoch, HELD_OUT: measured}
        )
        if is_main():
            self._watch.say(f"epoch {_name(state.epoch)}: {_line(measured)}")
        return True


def history(state: Any) -> dict[str, Mapping[str, Any]]:
    """Return the measures by epoch."""
    return {_name(one["epoch"]): one[HELD_OUT] for one in state.log_history if HELD_OUT in one}


def _name(epoch: float) -> str:
    return f"{epoch:g}"


def _line(measured: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.4g}"
        for name, value in measured.items()
        if isinstance(value, float)
    )
