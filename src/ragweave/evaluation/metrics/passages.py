"""Metrics of retrieved, selected and read passages, against the gold passages or the right answers.

Sources: BlendFilter (Wang et al. 2024, section 4.4); nDCG (Järvelin and Kekäläinen 2002, as trec_eval's
`ndcg_cut`, with the grade as gain); answer recall (Karpukhin et al. 2020, DPR); precision of the gold output
in the context (Wang et al. 2023, FILCO, table 3). As in BEIR's own evaluation, a document that is the query
itself does not count.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.evaluation.metrics.metric import Compute, Metric, Score, State
from ragweave.evaluation.metrics.text import dpr_tokens, stands_in, words_of
from ragweave.tools.filters import filco_normalize


def gold_names(question: Question, passages: Iterable[Document]) -> list[str]:
    """Return the passages' ids without repeats; a passage that is part of a gold passage, or contains it, gets its id."""
    texts = {str(doc.id): words_of(doc.page_content) for doc in question.passages if doc.id in question.gold}
    names: list[str] = []
    for doc in passages:
        name = str(doc.id)
        if name not in question.gold and texts:
            words = words_of(doc.page_content)
            name = next((gold for gold, text in texts.items() if words and _within(words, text)), name)
        names.append(name)
    return list(dict.fromkeys(names))


def _within(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    return stands_in(first, second) or stands_in(second, first)


def ranking(question: Question, state: State) -> list[str]:
    """Return the ids that the search for the question found, best first, without the question itself."""
    passages = (state.get("retrieved") or {}).get("question") or state["passages"]
    return [name for name in gold_names(question, passages) if name != question.id]


def recall_at(ranked: Sequence[str], gold: Mapping[str, float], k: int) -> float:
    """Return the share of the gold passages among the first `k`, 0 to 1."""
    return len(set(ranked[:k]) & gold.keys()) / len(gold)


def ndcg_at(ranked: Sequence[str], gold: Mapping[str, float], k: int) -> float:
    """Return nDCG with the grade as gain, 0 to 1."""
    gains = [gold.get(name, 0.0) for name in ranked[:k]]
    return _dcg(gains) / _dcg(sorted(gold.values(), reverse=True)[:k])


def _dcg(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(at + 2) for at, gain in enumerate(gains))


def mrr_at(ranked: Sequence[str], gold: Mapping[str, float], k: int) -> float:
    """Return one over the rank of the first gold passage; 0 if the first `k` have none."""
    return next((1 / (at + 1) for at, name in enumerate(ranked[:k]) if name in gold), 0.0)


def answer_recall(texts: Iterable[str], answers: Iterable[str]) -> float:
    """Return 1.0 if a passage contains the tokens of an answer."""
    passages = [dpr_tokens(text) for text in texts]
    return float(any(stands_in(dpr_tokens(answer), passage) for answer in answers for passage in passages))


def output_precision(context: Sequence[str], golds: Iterable[Sequence[str]]) -> float:
    """Return the share of a context's words, or letters, that the best right answer has too."""
    best = max((Counter(context) & Counter(gold)).total() for gold in golds)
    return best / len(context)


def _ranked(rule: Callable[[Sequence[str], Mapping[str, float], int], float], k: int) -> Compute:
    def compute(question: Question, state: State) -> Score:
        if not question.gold or state.get("depth", k) < k:
            return None  # fewer passages were searched for
        return rule(ranking(question, state), question.gold, k)

    return compute


def _searched(state: State) -> bool:
    return bool(state["passages"] or state.get("retrieved"))


def _read(rule: Callable[[set[str], set[str]], float]) -> Compute:
    """Return a rule over the passages in the prompt and the gold passages."""

    def compute(question: Question, state: State) -> Score:
        if not question.gold or not _searched(state):
            return None
        return rule(set(gold_names(question, state["passages"])), set(question.gold))

    return compute


def _filter_recall(question: Question, state: State) -> Score:
    retrieved = [doc for docs in (state.get("retrieved") or {}).values() for doc in docs]
    gold = set(gold_names(question, retrieved)) & question.gold.keys()
    return len(gold & set(gold_names(question, state["passages"]))) / len(gold) if gold else None


def _answer_recall(question: Question, state: State) -> Score:
    if question.kind != "short" or not question.answers or not _searched(state):
        return None
    return answer_recall([doc.page_content for doc in state["passages"]], question.answers)


def _output_precision(cut: Callable[[str], Sequence[str]]) -> Compute:
    def compute(question: Question, state: State) -> Score:
        golds = question.about.get("label") or question.answers  # for a claim, SUPPORTS instead of Yes
        context = cut("\n".join(doc.page_content for doc in state["passages"]))
        return output_precision(context, map(cut, golds)) if golds and context else None

    return compute


_BLENDFILTER, _FILCO = "Wang et al. 2024, BlendFilter", "Wang et al. 2023, FILCO"
_NDCG, _DPR = "Järvelin and Kekäläinen 2002", "Karpukhin et al. 2020, DPR"
_recall = _read(lambda read, gold: len(read & gold) / len(gold))
_found = _read(lambda read, gold: float(bool(read & gold)))
_precision = _read(lambda read, gold: len(read & gold) / len(read) if read else 0.0)
_just_gold = _read(lambda read, gold: float(read == gold))
_words, _letters = _output_precision(words_of), _output_precision(filco_normalize)
METRICS = (
    Metric("recall", "Recall", "Share of the gold passages that were in the prompt.", _recall, source=_BLENDFILTER),
    Metric("found", "Found", "A gold passage was in the prompt.", _found),
    Metric("precision", "Precision", "Share of the prompt's passages that are gold.", _precision, source=_BLENDFILTER),
    Metric("s_precision", "S-Precision", "The prompt held exactly the gold passages.", _just_gold, source=_BLENDFILTER),
    Metric(
        "filter_recall", "Filter recall", "Share of retrieved gold passages that were in the prompt.", _filter_recall
    ),
    *(
        Metric(f"recall@{k}", f"R@{k}", f"Share of the gold passages among the first {k}.", _ranked(recall_at, k))
        for k in (1, 5, 10, 20, 100)
    ),
    Metric("ndcg@10", "nDCG@10", "Discounted gain of the first 10, by grade.", _ranked(ndcg_at, 10), source=_NDCG),
    Metric("mrr@10", "MRR@10", "One over the rank of the first gold passage.", _ranked(mrr_at, 10)),
    Metric(
        "answer_recall", "Answer recall", "A passage in the prompt has a right answer.", _answer_recall, source=_DPR
    ),
    Metric(
        "output_precision",
        "Output precision",
        "Share of the context's words that the best right answer has.",
        _words,
        source=_FILCO,
    ),
    Metric(
        "filco_precision",
        "Precision (FILCO)",
        "Share of the context's letters that the best right answer has.",
        _letters,
        source=_FILCO,
        on_request=True,
    ),
)
