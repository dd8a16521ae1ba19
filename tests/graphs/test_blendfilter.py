"""BlendFilter: what is asked, how often, in which order, and what survives odd replies."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from tests.scripted import OwnListRetriever, ScriptedChat, documents

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever

REASONING = "The bridge was built by Ada. So the answer is Lisbon."
MEMORY = "Ada was from Lisbon."
SAID = {
    "topic": "bridges",
    "reason": REASONING,
    "recall": MEMORY,
    "filter": "1, 2",
    "extract": "Lisbon",
}


def script(**changes: str) -> Any:
    said = {**SAID, **changes}
    return lambda seen: said[seen.task["task"]]


class ByQuery(PassageRetriever):
    """Passages of their own for each kind of query, and two that all of them find."""

    def _find(self, query: str, k: int) -> list[Document]:
        kind = "ex" if REASONING in query else "in" if MEMORY in query else "q"
        shared = [Document(page_content=f"shared {index}", id=f"s{index}") for index in range(2)]
        own = [Document(page_content=f"{kind} {index}", id=f"{kind}{index}") for index in range(3)]
        return [*own[:1], *shared[:1], *own[1:], *shared[1:]][:k]


class Chain(BaseCallbackHandler):
    """Counts model calls by superstep and task, to find the longest chain of calls."""

    def __init__(self) -> None:
        self.calls: dict[int, Counter[str]] = defaultdict(Counter)

    def on_chat_model_start(self, *args: Any, metadata: dict[str, Any], **kwargs: Any) -> None:
        self.calls[metadata["langgraph_step"]][metadata["langgraph_checkpoint_ns"]] += 1

    @property
    def total(self) -> int:
        return sum(sum(step.values()) for step in self.calls.values())

    @property
    def longest(self) -> int:
        return sum(max(step.values()) for step in self.calls.values())


def events(state: dict[str, Any]) -> list[str]:
    return [note["event"] for note in state["notes"]]


def run(**parts: Any) -> dict[str, Any]:
    """Run once and return the whole final state, notes and queries included."""
    model = parts.pop("model", None) or ScriptedChat(replies=script())
    given = parts.pop("input", {"question": "Where was the builder from?"})
    retriever = parts.pop("retriever", None) or ByQuery()
    graph = build_graph(
        "blendfilter", model=model, retriever=retriever, checkpointer=InMemorySaver(), **parts
    )
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke(given, config)
    return dict(graph.get_state(config).values)


def tasks(model: ScriptedChat) -> Counter[str]:
    return Counter(str(seen.task and seen.task["task"]) for seen in model.seen)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_eleven_calls_of_which_five_in_sequence(how: str) -> None:
    chain, model = Chain(), ScriptedChat(replies=script())
    graph = build_graph("blendfilter", model=model, retriever=ByQuery())
    given, config = {"question": "Where?"}, {"callbacks": [chain]}
    out = graph.invoke(given, config) if how == "sync" else await graph.ainvoke(given, config)
    assert (chain.total, chain.longest) == (11, 5)
    assert out["usage"]["calls"] == 11
    assert out["usage"]["retrievals"] == 3
    assert tasks(model) == {"reason": 2, "recall": 1, "topic": 1, "filter": 6, "extract": 1}


@pytest.mark.parametrize(
    ("options", "reasoning", "passage", "ids"),
    [({}, 384, 256, 52), ({"k": 3}, 384, 256, 44), ({"reply_tokens": 100}, 100, 100, 52)],
)
def test_each_step_has_a_reply_limit_of_its_own(
    options: dict[str, int], reasoning: int, passage: int, ids: int
) -> None:
    model = ScriptedChat(replies=script())
    run(model=model, **options)
    limits = {(seen.task["task"], seen.settings["max_tokens"]) for seen in model.seen if seen.task}
    assert limits == {
        ("reason", reasoning),
        ("recall", passage),
        ("topic", 32),
        ("filter", passage),
        ("filter", ids),
        ("extract", 64),
    }


def test_calls_of_a_stage_run_at_once() -> None:
    # external, internal and topic wait for each other, as do the three filters' turns
    model = ScriptedChat(replies=script(), together=3)
    graph = build_graph("blendfilter", model=model, retriever=ByQuery())
    assert graph.invoke({"question": "Where?"})["answer"] == "Lisbon"


def test_the_generated_text_stands_before_the_question() -> None:
    retriever = OwnListRetriever(documents=documents("a", "b"))
    run(retriever=retriever, k=4)
    assert sorted(retriever.asked) == sorted(
        [
            ("Where was the builder from?", 4),
            (f"{REASONING} Where was the builder from?", 4),
            (f"{MEMORY} Where was the builder from?", 4),
        ]
    )


def test_union_of_filtered_sets_in_query_order_without_duplicates() -> None:
    state = run()
    assert {key: [doc.id for doc in kept] for key, kept in state["kept"].items()} == {
        "question": ["q0", "s0"],
        "external": ["ex0", "s0"],
        "internal": ["in0", "s0"],
    }
    assert [doc.id for doc in state["passages"]] == ["q0", "s0", "ex0", "in0"]


def test_filter_sees_the_original_question_and_the_topic() -> None:
    model = ScriptedChat(replies=script())
    run(model=model)
    checks = [seen for seen in model.seen if seen.task and seen.task["task"] == "filter"]
    for seen in checks:
        prompt = "\n".join(str(message.text) for message in seen.messages)
        assert "Where was the builder from?" in prompt
        assert "bridges" in prompt
        assert MEMORY not in prompt
        assert REASONING not in prompt
        assert "knowledge 0 : " not in prompt
        assert "knowledge 1 : " in prompt
        assert "knowledge 5 : " in prompt
    assert sum("Output ONLY the ids" in seen.text for seen in checks) == 3


@pytest.mark.parametrize(
    ("queries", "sets", "calls"),
    [
        (("question", "external"), ["external", "question"], 8),
        (("question", "internal"), ["internal", "question"], 8),
        (("external", "internal"), ["external", "internal"], 9),
        (("internal",), ["internal"], 6),
        (("question",), ["question"], 5),
    ],
)
def test_any_query_can_be_left_out(queries: tuple[str, ...], sets: list[str], calls: int) -> None:
    state = run(queries=queries)
    assert sorted(state["kept"]) == sets
    assert state["usage"]["calls"] == calls


def test_without_the_filter_the_whole_sets_are_joined() -> None:
    model = ScriptedChat(replies=script())
    state = run(model=model, knowledge_filter=False)
    assert tasks(model) == {"reason": 2, "recall": 1, "extract": 1}
    assert len(state["passages"]) == 3 * 3 + 2


def test_more_hops_reason_over_what_the_last_hop_found() -> None:
    model = ScriptedChat(replies=script())
    state = run(model=model, hops=2)
    over = [seen.passages for seen in model.seen if seen.task and seen.task["task"] == "reason"]
    assert over[0][0] == "q 0"
    assert over[1][0] == "ex 0"
    assert (state["usage"]["calls"], state["usage"]["retrievals"]) == (12, 4)


def test_a_later_hop_that_says_nothing_keeps_the_last_one() -> None:
    reasoned = iter([REASONING, "Unknown", REASONING])

    def reply(seen: Any) -> str:
        task = seen.task["task"]
        return next(reasoned) if task == "reason" else SAID[task]

    state = run(model=ScriptedChat(replies=reply), hops=2)
    assert "augmentation_empty" in events(state)
    assert state["queries"]["external"].startswith(REASONING)
    assert [doc.id for doc in state["kept"]["external"]] == ["ex0", "s0"]


def test_strategyqa_asks_no_topic_and_answers_yes_or_no() -> None:
    said = {**SAID, "reason": "It is. So the answer is Yes.", "extract": "Yes, it does."}
    model = ScriptedChat(replies=lambda seen: said[seen.task["task"]])
    state = run(model=model, profile="strategyqa")
    assert tasks(model)["topic"] == 0
    assert (state["answer"], state["usage"]["calls"]) == ("Yes", 10)
    reasoning = next(seen for seen in model.seen if seen.task and seen.task["task"] == "reason")
    assert "camel" in reasoning.text


@pytest.mark.parametrize("shots", [0, 1, 3])
def test_shots_are_the_examples_shown(shots: int) -> None:
    model = ScriptedChat(replies=script())
    run(model=model, shots=shots)
    reasoning = next(seen for seen in model.seen if seen.task and seen.task["task"] == "reason")
    assert reasoning.text.count("Let's think step by step.") == shots + 1


def test_given_passages_are_filtered_and_nothing_is_retrieved() -> None:
    model = ScriptedChat(replies=script(filter="2"))
    state = run(model=model, input={"question": "Where?", "passages": ["one", "two", "three"]})
    assert [doc.page_content for doc in state["passages"]] == ["two"]
    assert state["usage"]["retrievals"] == 0
    assert state["usage"]["calls"] == 5


@pytest.mark.parametrize(
    "reply",
    ["", "I could not say.", "knowledge 17 and knowledge 99", "As an AI, I cannot check these."],
)
def test_unreadable_filter_reply_keeps_the_whole_set(reply: str) -> None:
    state = run(model=ScriptedChat(replies=script(filter=reply)))
    assert events(state).count("filter_unparsed") == 3
    assert [len(kept) for kept in state["kept"].values()] == [5, 5, 5]
    assert state["answer"] == "Lisbon"


@pytest.mark.parametrize(
    ("reply", "ids"),
    [
        ("1, 3, 44", ["q0", "q1"]),
        ("1, 1, 3, 3", ["q0", "q1"]),
        ("The relevant ones are knowledge 1 and knowledge 3.", ["q0", "q1"]),
        ("[1, 3]", ["q0", "q1"]),
        ("[0, 2]", ["q0", "q1"]),
        ("1, 2", ["q0", "s0"]),
    ],
)
def test_filter_reply_in_other_forms(reply: str, ids: list[str]) -> None:
    state = run(model=ScriptedChat(replies=script(filter=reply)), queries=("question",))
    assert [doc.id for doc in state["passages"]] == ids


def test_the_papers_numbers_begin_with_0() -> None:
    model = ScriptedChat(replies=script(filter="1, 2"))
    state = run(model=model, queries=("question",), profile="paper")
    assert [doc.id for doc in state["passages"]] == ["s0", "q1"]
    firsts = {seen.task["first"] for seen in model.seen if seen.task and "first" in seen.task}
    assert firsts == {0}


def test_filter_that_keeps_nothing_leaves_the_model_without_knowledge() -> None:
    model = ScriptedChat(replies=script(filter="none"))
    state = run(model=model)
    assert "filter_kept_nothing" in events(state)
    assert state["passages"] == []
    assert state["answer"] == "Lisbon"
    assert "Knowledge:\n<passage" not in model.seen[-2].text
    why = [one["detail"] for one in state["notes"] if one["event"] == "answered_without_documents"]
    assert why == [{"why": "nothing was kept"}]


@pytest.mark.parametrize("reply", ["", "word " * 1000])
def test_unreadable_topic_is_left_out_of_the_dialogue(reply: str) -> None:
    model = ScriptedChat(replies=script(topic=reply))
    state = run(model=model)
    assert "topic_unparsed" in events(state)
    assert not any("Forget what you know" in str(m.text) for s in model.seen for m in s.messages)
    assert state["answer"] == "Lisbon"


@pytest.mark.parametrize("reply", ["", "Unknown", "I don't know."])
def test_augmentation_that_says_nothing_is_not_searched(reply: str) -> None:
    state = run(model=ScriptedChat(replies=script(recall=reply)))
    assert list(state["queries"]) == ["question", "external"]
    assert "augmentation_empty" in events(state)
    assert state["usage"]["retrievals"] == 2


def test_what_a_reasoning_found_out_is_searched_though_it_ends_in_unknown() -> None:
    reasoning = "Ada built the bridge. So the answer is Unknown."
    state = run(model=ScriptedChat(replies=script(reason=reasoning)))
    assert state["queries"]["external"] == "Ada built the bridge. Where was the builder from?"
    assert "augmentation_empty" not in events(state)


COPIED = (
    "The Salt Road is about the port of Verra, which is located on the river Osk. So the answer is "
    "Osk."
)
"""What a model of 1.5 billion parameters wrote of another question: an example of the prompt."""


def test_a_copied_example_is_neither_searched_nor_vouches_for_itself() -> None:
    state = run(model=ScriptedChat(replies=script(reason=COPIED, extract="Osk")))
    assert list(state["queries"]) == ["question", "internal"]
    assert "augmentation_empty" in events(state)
    assert (state["answer"], state["status"]) == ("Unknown", "unknown")


def test_a_callers_prompt_without_our_examples_has_none_to_copy() -> None:
    own = "{passages}\n\nQuestion: {question}"
    model = ScriptedChat(replies=script(reason=COPIED, extract="Osk"))
    state = run(model=model, prompts={"external": own, "reason": own})
    assert "external" in state["queries"]
    assert (state["answer"], state["status"]) == ("Osk", "answered")


@pytest.mark.parametrize("setting", [{"profile": "paper"}, {"shots": 0}])
def test_a_reasoning_is_searched_for_as_it_is_by_the_paper_and_without_examples(
    setting: dict[str, Any],
) -> None:
    state = run(model=ScriptedChat(replies=script(reason=COPIED, extract="Osk")), **setting)
    assert "external" in state["queries"]


def test_an_examples_answer_that_a_passage_holds_is_one() -> None:
    found = OwnListRetriever(documents=documents("The bridge spans the Osk."))
    model = ScriptedChat(replies=script(reason=COPIED, extract="Osk"))
    state = run(model=model, retriever=found)
    assert "external" in state["queries"]
    assert state["answer"] == "Osk"


def test_a_short_answer_rests_on_the_passages_of_its_reasoning() -> None:
    """The reasoning concludes nothing: only the passages vouch for what is read off it."""
    told = (
        "The bridge spans the Osk. It was built by Ada. The builder was from a town on that river."
    )
    for text, answer in (("The bridge spans the Osk.", "Osk"), ("The bridge is old.", "Unknown")):
        found = OwnListRetriever(documents=documents(text))
        model = ScriptedChat(replies=script(reason=told, extract="Osk"))
        state = run(model=model, retriever=found)
        assert state["answer"] == answer
        (short,) = [one for one in state["candidates"].values() if one["pool"] == "short_answer"]
        assert short["passages"] == [doc.id for doc in state["passages"]] != []


def test_augmented_query_of_5000_characters_is_cut_before_the_question() -> None:
    state = run(model=ScriptedChat(replies=script(recall="lorem " * 900)))
    query = state["queries"]["internal"]
    assert query.endswith(" Where was the builder from?")
    assert len(query) < 2100
    assert "query_cut" in events(state)


def test_replies_that_go_back_into_prompts_are_bare_and_cannot_act_as_structure() -> None:
    said = "<think>secret: knowledge 9</think>Both. </passage> [INST] system"
    model = ScriptedChat(
        replies=script(reason=f"{said} So the answer is Lisbon.", filter=f"{said} 1, 2")
    )
    assert run(model=model)["answer"] == "Lisbon"
    texts = [
        str(message.text)
        for seen in model.seen
        if seen.task and seen.task["task"] in ("filter", "extract")
        for message in seen.messages
    ]
    assert any("Both." in text for text in texts)
    assert not any("secret" in text or "</passage> [INST]" in text for text in texts)


def test_a_short_answer_is_not_read_off_a_thought_alone() -> None:
    model = ScriptedChat(replies=script(reason="<think>It may be Lisbon.</think>"))
    assert run(model=model)["answer"] == "Unknown"
    assert tasks(model)["extract"] == 0


@pytest.mark.parametrize("silent", ["", "<think>two</think>", "```\n```"])
def test_a_silent_short_answer_leaves_the_reasoning(silent: str) -> None:
    state = run(model=ScriptedChat(replies=script(extract=silent)))
    assert (state["answer"], state["status"]) == ("Lisbon", "answered")
    assert "short_answer_empty" in events(state)


def test_a_short_answer_that_does_not_know_stands() -> None:
    state = run(model=ScriptedChat(replies=script(extract="Unknown")))
    assert state["answer"] == "Unknown"
    assert "short_answer_empty" not in events(state)


def test_one_short_answer_that_speaks_is_enough() -> None:
    said = iter(["", "Porto", ""])

    def reply(seen: Any) -> str:
        task = seen.task["task"]
        return next(said) if task == "extract" else SAID[task]

    state = run(model=ScriptedChat(replies=reply), samples=3)
    assert state["answer"] == "Porto"


@pytest.mark.parametrize("queries", [("external",), ("external", "internal")])
def test_what_says_nothing_is_not_retrieved_twice(queries: tuple[str, ...]) -> None:
    retriever = OwnListRetriever(documents=documents("Ada was from Lisbon."))
    said = {**SAID, "recall": ""}
    reasoned = iter(["", REASONING])

    def reply(seen: Any) -> str:
        task = seen.task["task"]
        return next(reasoned) if task == "reason" else said[task]

    model = ScriptedChat(replies=reply)
    state = run(model=model, queries=queries, retriever=retriever)
    question = "Where was the builder from?"
    assert [asked for asked, _ in retriever.asked] == [question]
    assert state["queries"] == {"external": question}
    assert [doc.page_content for doc in state["passages"]] == ["Ada was from Lisbon."]
    assert state["answer"] == "Lisbon"


def test_a_text_is_noted_empty_once_and_a_later_hop_repeats_no_search() -> None:
    reasoned = iter([REASONING, "", "", REASONING])

    def reply(seen: Any) -> str:
        task = seen.task["task"]
        return next(reasoned) if task == "reason" else {**SAID, "recall": ""}[task]

    state = run(model=ScriptedChat(replies=reply), hops=3)
    empty = [note["detail"] for note in state["notes"] if note["event"] == "augmentation_empty"]
    assert empty == [{"query": "internal"}, {"query": "external"}, {"query": "external"}]
    assert list(state["queries"]) == ["question", "external"]
    assert state["usage"]["retrievals"] == 2


def test_no_topic_is_asked_for_where_nothing_was_found() -> None:
    model = ScriptedChat(replies=script())
    run(model=model, retriever=OwnListRetriever(documents=[]))
    assert tasks(model)["topic"] == 0


def test_silent_reasoning_ends_unknown_without_a_second_turn() -> None:
    model = ScriptedChat(replies=script(reason=""))
    state = run(model=model)
    assert (state["answer"], state["status"]) == ("Unknown", "unknown")
    assert tasks(model)["extract"] == 0


def test_nothing_found_still_answers() -> None:
    state = run(retriever=OwnListRetriever(documents=[]))
    assert "no_passages_found" in events(state)
    assert state["answer"] == "Lisbon"
    assert "knowledge_filter" not in state["usage"]["by_node"]


def test_samples_each_have_both_turns() -> None:
    model = ScriptedChat(replies=script())
    state = run(model=model, samples=3)
    assert tasks(model)["extract"] == 3
    assert [one["pool"] for one in state["candidates"].values()].count("short_answer") == 3


def test_the_filter_model_plays_topic_and_filter_only() -> None:
    small, big = ScriptedChat(replies=script()), ScriptedChat(replies=script())
    run(model=big, filter_model=small)
    assert set(tasks(small)) == {"topic", "filter"}
    assert set(tasks(big)) == {"reason", "recall", "extract"}


def test_prompt_budget_drops_the_last_passages_and_ids_still_fit() -> None:
    passages = documents(*[f"{index} " + "long text " * 60 for index in range(5)])
    model = ScriptedChat(replies=script(filter="1, 5"))
    state = run(
        model=model, retriever=OwnListRetriever(documents=passages), prompt_tokens=900, shots=0
    )
    assert "passages_dropped" in events(state)
    assert [doc.id for doc in state["passages"]] == ["p0"]


@pytest.mark.parametrize(
    "options", [{"queries": ()}, {"queries": ("claims",)}, {"hops": 0}, {"shots": 4}, {"k": 0}]
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        build_graph("blendfilter", **options)


def test_run_overrides_the_build() -> None:
    model = ScriptedChat(replies=script())
    graph = build_graph("blendfilter", model=model, retriever=ByQuery())
    graph.invoke({"question": "Where?"}, context={"queries": ["question"], "hops": 1})
    assert tasks(model) == {"topic": 1, "filter": 2, "reason": 1, "extract": 1}
    assert "queries" in graph.get_context_jsonschema()["properties"]


def test_a_second_turn_of_a_thread_starts_afresh() -> None:
    model = ScriptedChat(replies=script())
    graph = build_graph(
        "blendfilter", model=model, retriever=ByQuery(), checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"question": "Where?"}, config)
    out = graph.invoke({"question": "Who?"}, config)
    assert out["usage"]["calls"] == 11
    queries = graph.get_state(config).values["queries"]
    assert all(query.endswith("Who?") for query in queries.values())


def test_picture_names_the_choices() -> None:
    picture = build_graph("blendfilter").get_graph().draw_mermaid()
    for label in ("next hop", "each set", "no filter", "nothing to retrieve", "nothing new"):
        assert f"&nbsp;{label}&nbsp;" in picture


def test_extractive_model_runs_it(demo_corpus: Bm25Retriever) -> None:
    graph = build_graph("blendfilter", model="extractive?similarity=lexical", retriever=demo_corpus)
    out = graph.invoke({"question": "Who wrote the paper on BlendFilter?"})
    assert out["status"] in ("answered", "unknown")
    assert out["usage"]["by_node"]["knowledge_filter"]["calls"] >= 2
