"""BlendFilter in its paper's words: appendix F, word for word, and texts that become queries as they are."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave import build_graph
from ragweave.testing import CARDS, RecordingRetriever, ScriptedModel

ASK = {"question": "Who built the bridge at Alden?"}
REASONED = "Ada Brenner built it. So the answer is Ada Brenner."
REPLIES = {
    "external": REASONED,
    "internal": "I don't know who built it.",
    "topic": "bridges.",
    "check": "Knowledge 0 helps.",
    "choose": "0",
    "reason": REASONED,
    "short_answer": "Ada Brenner",
}
TITLED = f"Card 0 | {CARDS[0].page_content}"
KNOWLEDGE = f"knowledge 0 : {TITLED}"


def texts(given: dict[str, Any] = ASK, **options: Any) -> tuple[dict[str, str], list[str]]:
    """Return the prompt of each node and the searches."""
    model, retriever = ScriptedModel(script=REPLIES), RecordingRetriever(documents=[CARDS[0]])
    build_graph("blendfilter", model=model, retriever=retriever, profile="paper", **options).invoke(given)
    return {call.node: call.text for call in model.calls}, retriever.searches


def test_the_prompts_of_hotpotqa() -> None:
    prompts, _ = texts()
    question = ASK["question"]
    assert prompts["topic"] == f"What general topic is Question {question} related to? Answer:The topic is related to"
    assert prompts["check"] == (
        f"forget your knowledge about bridges. Please only consider the knowledge below.\n{KNOWLEDGE}\nPlease check the "
        f"relevance between {question} and knowledges 0-0 one by one, remove the irrelevant ones and show me the relevant "
        "ones. There may be multiple relevent ones. Please take a deep breath and do it step by step."
    )
    assert prompts["choose"] == (
        "Please check the relevance between the given question and knowledges 0-0 one by one based on the given context. "
        "ONLY output the relevant knowledge ids (0-0). There may be multiple relevent ones.\nContext:Knowledge 0 helps.\n"
        f"Question:{question}\n{KNOWLEDGE}\nAnswer:"
    )
    assert prompts["internal"] == f"Please write a passage to answer the question.\nQuestion:{question}\nPassage:"
    assert prompts["short_answer"] == (
        "Answer the following question based on the given context with one or few words.\n"
        f"Context:{REASONED}\nQuestion:{question}\nAnswer:"
    )
    assert prompts["reason"].startswith(
        "Answer questions following the given format.\n\nKnowledge:Mr. Big (2007 film) | "
    )
    assert (
        "\nQuestion:Are It Might Get Loud and Mr. Big both Canadian documentaries?\nLet's think step by step.\n"
        in prompts["reason"]
    )
    assert prompts["reason"].endswith(f"Knowledge:{TITLED}\nQuestion:{question}\nLet's think step by step.")


def test_the_prompts_of_strategyqa() -> None:
    prompts, _ = texts({**ASK, "answer_type": "yes_no"})
    assert "topic" not in prompts
    assert prompts["check"] == (
        "Please check the relevance between the given question and knowledges 0-0 one by one carefully, remove all the "
        "irrelevant ones and only show me the relevant ones. There may be no relevant one.\n"
        f"Question:{ASK['question']}\n{KNOWLEDGE}\nPlease take a deep breath and do it step by step."
    )
    assert "There may be no relevant one.\nContext:Knowledge 0 helps." in prompts["choose"]
    assert prompts["short_answer"].startswith(
        "Answer the following question based on the given context. The final answer to a question should always be either "
        "Yes or No, and NOTHING ELSE.\nContext:"
    )
    assert "Do people take laxatives because they enjoy diarrhea?" in prompts["reason"]


@pytest.mark.parametrize(("data", "last"), [("hotpotqa", "Lucium was confimed"), ("2wiki", "Who is Rhescuporis I")])
def test_the_examples_are_the_data_sets(data: str, last: str) -> None:
    assert last in texts(examples=data)[0]["reason"]
    assert last not in texts(examples=data, shots=2)[0]["reason"]


def test_external_augmentation_has_one_prompt_for_all_data_sets() -> None:
    """Appendix F."""
    hotpotqa = texts()[0]["external"]
    assert "Lucium was confimed" in hotpotqa
    assert texts(examples="2wiki")[0]["external"] == hotpotqa == texts({**ASK, "answer_type": "yes_no"})[0]["external"]


def test_a_long_topic_stays_in_the_papers_prompt() -> None:
    model = ScriptedModel(script={**REPLIES, "topic": "bridges, " * 20})
    build_graph("blendfilter", model=model, retriever=RecordingRetriever(), profile="paper").invoke(ASK)
    assert "There may be multiple relevent ones." in next(call.text for call in model.calls if call.node == "check")


def test_texts_become_queries_as_they_are() -> None:
    searches = texts()[1]
    assert f"I don't know who built it. {ASK['question']}" in searches
    model, retriever = ScriptedModel(script=REPLIES), RecordingRetriever()
    build_graph("blendfilter", model=model, retriever=retriever).invoke(ASK)
    assert sorted(retriever.searches) == sorted([ASK["question"], f"{REASONED} {ASK['question']}"])
