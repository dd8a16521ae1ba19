"""Training of components on labelled rows, by the libraries' own trainers."""

from ragweave.training.train import train

__all__ = ["train"]
