"""How trainers run, whatever they train: arguments, checkpoints, errors, progress, processes."""

from __future__ import annotations
