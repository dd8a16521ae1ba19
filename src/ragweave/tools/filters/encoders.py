"""The context filter by a bi-encoder: RECOMP's extractive compressor.

`RecompFilter` ranks sentences by a bi-encoder. Source: Xu et al. 2024 (RECOMP: Improving
Retrieval-Augmented LMs with Compression and Selective Augmentation), section 3.1: question and
sentences are encoded apart, and the sentences with the highest inner products are kept, one for
NQ and TriviaQA, two for HotpotQA. The paper trains Contriever for it; here any embedding
model will do (the packaged MiniLM without torch), and vectors have unit length.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache

from langchain_core.documents import Document

from ragweave.tools.filters.oracles import checked_top, top_spans
from ragweave.tools.filters.spans import Granularity, Span, spans_of, with_score
from ragweave.tools.retrieval.reranking import BiEncoderScorer, PairScorer

_EVERYTHING = -2.0
"""Below any cosine."""
_LOCK = threading.Lock()


@lru_cache(maxsize=2)
def _bi_encoder(spec: str) -> PairScorer:
    return BiEncoderScorer(spec)


class RecompFilter:
    """Keeps the sentences that a bi-encoder finds nearest to the question (RECOMP, extractive)."""

    def __init__(
        self,
        encoder: str | PairScorer = "minilm",
        threshold: float | None = None,
        top: int | None = 1,
        granularity: Granularity = "sentence",
    ) -> None:
        """Set the encoder; a named one is loaded at first use.

        Args:
            encoder: `minilm`, a local path, a hub name (`?query=…&passage=…` for prefixes), or an
                object that scores pairs.
            threshold: Cosine that a sentence must exceed; None: none is too far.
            top: How many sentences to keep; None: all above the threshold.
            granularity: Sentences, or whole passages.
        """
        self.encoder, self.threshold, self.top = encoder, threshold, checked_top(top)
        self.granularity = granularity

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
    ) -> list[Span]:
        """Return the nearest sentences, best first."""
        spans = spans_of(passages, self.granularity)
        if not spans:
            return []
        with _LOCK:  # tokenizers and most models are not safe under threads
            scorer = _bi_encoder(self.encoder) if isinstance(self.encoder, str) else self.encoder
            cosines = scorer.predict([(question, span["text"]) for span in spans])
        scored = [with_score(span, float(one)) for span, one in zip(spans, cosines, strict=True)]
        least = _EVERYTHING if self.threshold is None else self.threshold
        return top_spans(scored, least, self.top)
