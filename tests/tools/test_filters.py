"""FILCO's measures, what they keep, and the lines that its models read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from langchain_core.documents import Document

from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import (
    FILTERS,
    FilterSettings,
    best_share,
    filter_task,
    generator_task,
    lexical,
    only_verdicts,
    quoted,
    span_of,
)

CLAIM = "Is this claim true? Ada Brenner built the bridge."
TEXT = "It opened early. Ada Brenner built it. It is long."
SEGMENTS = split_passages([Document(TEXT, id="bridge")])


class Scorer:
    """Finds a continuation as probable as the prompt is long."""

    def __init__(self, *, causal: bool = False) -> None:
        self.causal, self.pairs = causal, list[tuple[str, str]]()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.pairs += pairs
        return [len(prompt) / 100 - 10 for prompt, _ in pairs]


def chosen(name: str, question: str, answers: list[str], **settings: object) -> list[str]:
    kind = FILTERS[name]
    scores = kind.scores(question, SEGMENTS, answers, FilterSettings(**settings))  # type: ignore[arg-type]
    return [SEGMENTS[at].page_content for at in kind.best(scores, top=kind.top)]


def test_lexical_is_the_f1_of_letters() -> None:
    """FILCO's released `calc_unigram_f1`, which counts the letters of a text."""
    assert lexical("Dana", "and") == pytest.approx(2 * 3 / (4 + 3))
    assert lexical("The Ada", "ada!") == pytest.approx(2 * 3 / (3 + 4))
    assert lexical("Ada", "") == 0.0


def test_cxmi_is_the_gain_in_log_probability_and_one_call() -> None:
    scorer = Scorer()
    segments = [Document("short"), Document("much longer text")]
    gains = FILTERS["cxmi"].scores("Who?", segments, ["Ada"], FilterSettings(scorer=scorer))
    asked = "question: Given the ['context', 'question'], predict the answer to the question:Who?"
    assert scorer.pairs == [
        (asked, "Ada"),
        (f"context: short\n{asked}", "Ada"),
        (f"context: much longer text\n{asked}", "Ada"),
    ]
    assert 0 < gains[0] < gains[1]


def test_cxmi_scores_the_label_of_a_claim_and_leads_a_causal_scorer_to_it() -> None:
    scorer = Scorer(causal=True)
    FILTERS["cxmi"].scores(CLAIM, SEGMENTS, ["Yes"], FilterSettings(scorer=scorer))
    prompt, output = scorer.pairs[0]
    assert output == "SUPPORTS"
    assert prompt.endswith("predict the judgement to the claim:Ada Brenner built the bridge.\njudgement: ")


def test_what_each_filter_keeps() -> None:
    built = "Ada Brenner built it."
    assert chosen("strinc", "Who?", ["ADA brenner"]) == [built]
    assert chosen("strinc", "Who?", ["Ada Oster", " "]) == []
    assert chosen("lexical", "Who built it?", ["Ada Brenner built it"]) == [built]
    assert chosen("lexical", "Who?", ["Ada Brenner and Karl Oster"]) == [built]
    assert chosen("lexical", "Is it long?", []) == ["It is long."]
    assert chosen("full", "Who?", []) == [segment.page_content for segment in SEGMENTS]


def test_equal_scores_keep_the_first_and_a_share_of_the_text_is_reached() -> None:
    kind = FILTERS["lexical"]
    assert kind.best([0.2, 0.5, 0.5]) == [1]
    assert kind.best([0.2, 0.5, 0.5], top=None, threshold=0.3) == [1, 2]
    assert best_share(SEGMENTS, [1, 2, 0], len(TEXT) / 2) == [1, 2]


def test_what_a_model_wrote_is_found_in_the_segments() -> None:
    texts = [segment.page_content for segment in SEGMENTS]
    assert quoted("ada brenner built it", texts) == [0.0, 1.0, 0.0]
    assert quoted("It opened early, Ada Brenner built it.", texts) == [1.0, 1.0, 0.0]
    assert quoted("Ada once built it.", texts)[1] == pytest.approx(0.75)
    assert quoted("Mars has two moons.", texts) == quoted("", texts) == [0.0] * 3


def test_lines_and_spans() -> None:
    assert generator_task("Who?") == "Given the ['context', 'question'], predict the answer to the question."
    assert filter_task("Who?") == "Given the ['question', 'context'], predict the most helpful sentence in the context."
    assert generator_task(CLAIM, context=False).startswith(
        "Given the ['claim'], predict the judgement to the claim.('SUPP"
    )
    assert only_verdicts(["Yes", "refutes"])
    assert not only_verdicts(["Yes", "Ada"])
    assert not only_verdicts([])
    span = span_of(SEGMENTS[1], 0.5)
    assert TEXT[span["start"] : span["end"]] == span["text"] == "Ada Brenner built it."
