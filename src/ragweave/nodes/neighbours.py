"""SKR-KNN: does a question need retrieval, going by what similar questions needed?

Source: Wang et al. 2023 (Self-Knowledge Guided Retrieval Augmentation for Large Language Models),
as SlimPLM's baseline (section 4.3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda

from ragweave.errors import UsageError
from ragweave.nodes.need import retrieval_decision
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.step import Call, Context, Step, Work
from ragweave.state import RAGState
from ragweave.tools.neighbours import Neighbour, TrainingIndex, embeddings_of
from ragweave.tools.training_questions import read_training


@dataclass(frozen=True, kw_only=True)
class SkrKnnOptions(Options):
    """Options of `skr_knn`."""

    training: str = ""
    """Path of the training questions: JSONL rows `{"question": …, "needed": true}`."""
    neighbours: int = 5
    """How many of the nearest training questions decide."""
    prior: float | None = 0.5
    """Share of neighbours needing retrieval from which on to retrieve: 0.5 is a majority, a tie
    retrieves; None takes the share among all training questions."""
    embedding: str = "minilm"
    """Embedding model where the build gives no object: `minilm`, a local path or a hub name."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        at_least("neighbours", self.neighbours, 1)
        if self.prior is not None and not 0 <= self.prior <= 1:
            raise UsageError(f"prior must be 0 to 1, or None, not {self.prior}")


class Library:
    """Training indexes by file and embedding model, each read once."""

    def __init__(self, embeddings: Embeddings | None = None) -> None:
        """Take the caller's embeddings; None: the one that the options name."""
        self._own = embeddings
        self._lock = threading.Lock()
        self._indexes: dict[tuple[str, str], TrainingIndex] = {}

    def index(self, options: SkrKnnOptions) -> TrainingIndex:
        """Return the index that the options name.

        Raises:
            UsageError: No training file is named, or it cannot be read.
            MissingExtraError: The embedding model's packages are not installed.
        """
        if not options.training:
            raise UsageError(
                "skr_knn needs training questions: training=PATH of a JSONL file with rows "
                '{"question": …, "needed": true or false}'
            )
        key = (options.training, "" if self._own else options.embedding)
        with self._lock:
            if key not in self._indexes:
                embeddings = self._own or embeddings_of(options.embedding)
                self._indexes[key] = TrainingIndex(read_training(options.training), embeddings)
            return self._indexes[key]


def neighbours_step(library: Library, options: SkrKnnOptions) -> Step[RAGState, SkrKnnOptions]:
    """Return the node `neighbours`: decides by the nearest training questions, without a model."""

    def body(state: RAGState, context: Context[SkrKnnOptions]) -> Work:
        opts = context.options
        index = library.index(opts)
        found = yield Call(RunnableLambda(_search(index, opts.neighbours)), state["question"])
        prior = index.share_needed if opts.prior is None else opts.prior
        share = share_needed(found)
        questions = [one.question for one in found]
        context.note("neighbours", share=share, prior=prior, questions=questions)
        return retrieval_decision(known=share < prior)

    return Step("neighbours", body, options)


def share_needed(found: Sequence[Neighbour]) -> float:
    """Return the share of neighbours that needed retrieval."""
    return sum(one.needed for one in found) / len(found)


def _search(index: TrainingIndex, count: int) -> Callable[[str], list[Neighbour]]:
    def nearest(question: str) -> list[Neighbour]:
        return index.nearest(question, count)

    return nearest
