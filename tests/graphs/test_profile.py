"""Prompts and settings of the papers: what each method asks under `profile`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.hash_embeddings import HashEmbeddings
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents
from tests.unsure import UnsureChat

from ragweave import METHODS, build_graph
from ragweave.errors import UsageError
from ragweave.graphs.build import method_options
from ragweave.nodes.options import specialised
from ragweave.nodes.printed import SELF_ASK_TASK
from ragweave.nodes.profile import SETTINGS

QUESTION = "Who built the light?"
DOCS = documents("Ada Brenner built the light.", "It stands in Norland.", "Ferries pass.")
SAID = {
    "topic": "lights",
    "reason": "Ada built it. So the answer is Ada.",
    "recall": "It was built by Ada.",
    "filter": "0, 1",
    "extract": "Ada",
    "answer": "Ada",
    "judge": "Known (False)",
    "rewrite": "<Claim> Ada built it <Query> who built the light",
    "need": "Yes, I need additional information.",
    "grade": "Correct",
}

ENDS = "So the answer is …"
ABOUT_DATA = "quoted data"
CLAUSE = "say Unknown"
REFERENCE = (
    "Now, based on the following reference and your knowledge, please answer the question more "
    "succinctly and professionally. The reference is delimited by triple brackets [[[]]]. The "
    "question is delimited by triple parentheses ((())). You should include as many possible "
    "answers as you can."
)
FORMAT = "Answer questions following the given format."
STEPS = "Let's think step by step."


def scripted(seen: Seen) -> str:
    assert seen.task is not None
    if seen.task["task"] == "step":
        return "Finish[Ada]" if "Thought 1" in seen.text else "So the final answer is: Ada"
    if "correct candidates" in seen.text:
        return "(a) Ada (b) Bo"
    if "professional writer" in seen.text:
        return "Ada built it. [DONE]" if "(a) Ada\n" in seen.text else "Bo did."
    return SAID[seen.task["task"]]


def asked(method: str, profile: str, given: dict[str, Any] | None = None, **options: Any) -> str:
    """Return the text of all prompts of a run."""
    kind = UnsureChat if method == "flare" else ScriptedChat
    model = kind(replies=["It was Bob~0.1 .", "Ada."] if method == "flare" else scripted)
    graph = build_graph(
        method,
        model=model,
        retriever=ListRetriever(documents=DOCS),
        embeddings=HashEmbeddings(),
        profile=profile,
        **options,
    )
    graph.invoke({"question": QUESTION, **(given or {})})
    prompts = ["\n".join(str(one.text) for one in seen.messages) for seen in model.seen]
    return "\n=====\n".join(prompts)


@pytest.fixture
def training(tmp_path: Path) -> str:
    path = tmp_path / "needed.jsonl"
    path.write_text(json.dumps({"question": "Who?", "needed": True}), "utf-8")
    return str(path)


ASKED: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("direct", "blendfilter", {}, [FORMAT, f"Question: {QUESTION}\nAnswer:"]),
    ("direct", "blendfilter", {"retrieve": True}, ["Knowledge:\nAda Brenner built the light.\n"]),
    ("cot", "blendfilter", {"retrieve": True}, [FORMAT, f"Question: {QUESTION}\n{STEPS}"]),
    ("cot", "blendfilter", {}, [FORMAT, f"Question: {QUESTION}\n{STEPS}"]),
    ("iter_retgen", "blendfilter", {}, [FORMAT, "Knowledge:\n", STEPS]),
    ("react", "blendfilter", {}, ["Thought 1:", "Finish"]),
    ("self_ask", "blendfilter", {}, ["Are follow up questions needed here:"]),
    (
        "blendfilter",
        "paper",
        {},
        [
            f"What general topic is Question {QUESTION} related to?",
            "The topic is related to lights.",
            "Forget your knowledge about lights. Please only consider the knowledge below.\n"
            "knowledge 0 : Ada Brenner built the light.",
            f"Please check the relevance between {QUESTION} and knowledges 0-2 one by one, remove "
            "the irrelevant ones and show me the relevant ones. There may be multiple relevant "
            "ones. Please take a deep breath and do it step by step.",
            "Please check the relevance between the given question and knowledges 0-2 one by one "
            "based on the given context. ONLY output the relevant knowledge ids (0-2). There may "
            "be multiple relevant ones.",
            FORMAT,
            f"Question: {QUESTION}\n{STEPS}",
            "Answer the following question based on the given context.",
        ],
    ),
    ("direct", "slimplm", {}, []),
    ("direct", "slimplm", {"retrieve": True}, [REFERENCE, f"]]], question: ((({QUESTION})))"]),
    ("cot", "slimplm", {}, [f"Question: {QUESTION}\n{STEPS}"]),
    (
        "cot",
        "slimplm",
        {"retrieve": True},
        [REFERENCE, "think step by step to answer the question"],
    ),
    ("iter_retgen", "slimplm", {}, [REFERENCE]),
    ("flare", "paper", {}, ["Search results:\n[1] Ada Brenner built the light.\n[2] It stands"]),
    ("self_ask", "paper", {}, [SELF_ASK_TASK]),
    (
        "self_eval",
        "paper",
        {},
        [
            "Based on your knowledge you should tell if you need additional information to answer "
            "the following questions.",
            f"Question: [[{QUESTION}]] Do you need additional information to answer this question?",
            REFERENCE,
        ],
    ),
    (
        "slimplm",
        "paper",
        {},
        [
            "You are a helpful assistant. Your task is to parse user input into structured formats "
            "and accomplish the task according to the heuristic answer.",
            f"Heuristic answer: It was built by Ada.\nQuestion: {QUESTION}\nRetrieval Necessity "
            "Judgment Output, Known (True / False):",
            "Query Rewrite Output, <Claim> Claim 1 <Query> Query 1",
            REFERENCE,
            f"Reference: [[[\nAda Brenner built the light.\nIt stands in Norland.\nFerries pass.\n]]]"
            f", question: ((({QUESTION})))",
        ],
    ),
    (
        "filco",
        "paper",
        {"filter": "full"},
        [f"context: Ada Brenner built the light.\nquestion: {QUESTION}"],
    ),
    (
        "chain_of_note",
        "paper",
        {},
        [
            "Task Description:\n1. Read the given question and five Wikipedia passages to gather "
            "relevant information.",
            "5. If no passage is relevant, directly provide an answer without considering the "
            f"passages.\n\nQuestion: {QUESTION}",
        ],
    ),
    (
        "sure",
        "paper",
        {},
        [
            "Below are 3 passages related to the question at the end. After reading the passages, "
            "provide two correct candidates for the answer to the question at the end.",
            "Passage #1 Title: \nPassage #1 Text: Ada Brenner built the light.\n\nPassage #2",
            f"Question: {QUESTION}\nChoices: (a) Ada (b) Bo\nPrediction: (b) Bo\nPassage: ",
            "Prediction:\nAda\n\nPassage:\nAda built it.\n\nDoes the passage correctly support "
            "the prediction? Choices: [True, False]. Answer:",
            f"Passage 1:\nBo did.\n\nPassage 2:\nAda built it.\n\nTarget Question:\nQuestion: "
            f"{QUESTION}",
        ],
    ),
    (
        "ircot",
        "paper",
        {},
        [
            "Wikipedia Title: \nAda Brenner built the light.\n\nWikipedia Title: \nIt stands",
            f"Q: Answer the following question by reasoning step-by-step.\n{QUESTION}\nA: \n=====",
        ],
    ),
    ("ircot", "paper", {"read_by": "direct"}, [f"the following question.\n{QUESTION}\nA:"]),
    (
        "dos_rag",
        "paper",
        {},
        ["[Start of Context]:\n\nAda Brenner built the light. \n\nIt stands in Norland. \n\n"],
    ),
    ("concat", "sure", {}, ["predict the answer to the following question. Do not exceed 3 words"]),
    ("adaptive", "paper", {"answer": "reference"}, [REFERENCE]),
    ("adaptive", "paper", {"answer": "reason"}, [FORMAT, "Forget your knowledge about lights."]),
]


@pytest.mark.parametrize(("method", "profile", "options", "parts"), ASKED)
def test_a_method_asks_in_the_papers_words(
    method: str, profile: str, options: dict[str, Any], parts: list[str]
) -> None:
    prompts = asked(method, profile, **options)
    for part in parts:
        assert part in prompts
    assert CLAUSE not in prompts
    assert "Finish[Unknown]" not in prompts
    if method not in ("react", "self_ask", "adaptive"):
        assert ABOUT_DATA not in prompts
        assert ENDS not in prompts


def test_vanilla_chat_is_the_question_alone() -> None:
    assert asked("direct", "slimplm") == QUESTION


def test_the_nearest_questions_row_has_slimplms_prompt(training: str) -> None:
    assert REFERENCE in asked("skr_knn", "paper", training=training)


@pytest.mark.parametrize(
    "method", ["concat", "post_fusion", "pruning", "summary", "concat_pf", "pf_concat"]
)
def test_liu_and_others_print_the_clause_on_unknown(method: str) -> None:
    prompts = asked(method, "paper").split("\n=====\n")
    assert all("If don't know the answer, just say Unknown." in one for one in prompts)
    assert "If you don't know" not in "".join(prompts)


def test_long_answers_have_slimplms_other_sentence() -> None:
    prompts = asked("slimplm", "paper", {"answer_type": "long"})
    assert "You are not allowed to add fabrications or hallucinations." in prompts
    assert "as many possible answers" not in prompts


def test_yes_or_no_has_strategyqas_form() -> None:
    prompts = asked("blendfilter", "paper", {"answer_type": "yes_no"})
    assert "always be either Yes or No, and NOTHING ELSE." in prompts
    assert "What general topic" not in prompts
    assert "or no relevant one" in prompts


@pytest.mark.parametrize("method", ["crag", "astute", "uncertainty_gate"])
def test_a_paper_that_has_no_prompts_here_leaves_ours(method: str) -> None:
    assert method_options(METHODS[method], {"profile": "paper"}).paper == ""


@pytest.mark.parametrize("profile", ["blendfilter", "slimplm"])
def test_all_methods_of_a_table_have_one_setting(profile: Any) -> None:
    shared = SETTINGS[profile].items()
    for method in METHODS.ours():
        options = method_options(method, {"profile": profile})
        for name, value in shared:
            if name != "reader" or method.name == "self_ask":
                assert getattr(options, name, value) == value


def test_an_option_of_the_same_name_and_another_kind_is_left_alone() -> None:
    options = method_options(METHODS["ircot"], {"profile": "slimplm"})
    assert isinstance(getattr(options, "reader", ""), str)
    assert method_options(METHODS["self_ask"], {"profile": "blendfilter"}).reader is False


def test_what_the_caller_sets_stays() -> None:
    options = method_options(METHODS["direct"], {"profile": "paper", "k": 8, "samples": 3})
    assert (options.k, options.unknown, options.ask_again) == (8, False, False)
    assert options.sampling == {"temperature": 0.7}
    run = specialised(method_options(METHODS["direct"], {"k": 8}))(profile="slimplm")
    assert (run.k, run.unknown) == (8, False)


OVERRIDES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"profile": "paper"}, {"samples": 3}),
    ({"profile": "paper"}, {"k": 5}),
    ({"profile": "sure"}, {"profile": "ours"}),
    ({"profile": "slimplm"}, {"profile": "blendfilter"}),
    ({"profile": "slimplm", "k": 5}, {"profile": "sure"}),
    ({"top_p": 0.5}, {"profile": "sure"}),
    ({}, {"profile": "slimplm"}),
]


@pytest.mark.parametrize(("build", "override"), OVERRIDES)
@pytest.mark.parametrize("method", ["concat", "slimplm", "blendfilter", "dos_rag"])
def test_an_override_of_a_run_is_the_same_option_of_a_build(
    method: str, build: dict[str, Any], override: dict[str, Any]
) -> None:
    built = method_options(METHODS[method], build)
    wanted = dataclasses.asdict(method_options(METHODS[method], {**build, **override}))
    schema = specialised(built)
    assert dataclasses.asdict(schema()) == dataclasses.asdict(built)
    assert dataclasses.asdict(schema(**override)) == wanted
    shown = {one.name: one.default for one in dataclasses.fields(schema)}
    listed = {name: list(one) if isinstance(one, tuple) else one for name, one in shown.items()}
    if override != {"k": 5}:  # which a form that is sent back whole cannot tell from its default
        assert dataclasses.asdict(schema(**{**listed, **override})) == wanted


def test_a_run_draws_samples_at_their_temperature_under_a_papers_profile() -> None:
    model = ScriptedChat(replies=scripted)
    graph = build_graph("direct", model=model, profile="paper")
    graph.invoke({"question": QUESTION}, context={"samples": 3})
    assert [seen.settings["temperature"] for seen in model.seen] == [0.7] * 3


def test_a_run_takes_another_profile() -> None:
    model = ScriptedChat(replies=scripted)
    build_graph("direct", model=model).invoke(
        {"question": QUESTION}, context={"profile": "slimplm"}
    )
    assert model.seen[0].text == QUESTION


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(UsageError, match="profile must be one of ours, strategyqa, paper"):
        build_graph("direct", profile="multi_hop")


def test_a_papers_wording_is_replaced_by_its_name() -> None:
    model = ScriptedChat(replies=scripted)
    graph = build_graph(
        "direct", model=model, profile="slimplm", prompts={"direct@slimplm": "Q: {question}"}
    )
    graph.invoke({"question": QUESTION})
    assert model.seen[0].text == f"Q: {QUESTION}"


ANSWERS = [
    ("direct", {}),
    ("direct", {"shots": 2}),
    ("cot", {"shots": 1, "retrieve": True}),
    ("concat", {}),
    ("pruning", {}),
    ("blendfilter", {}),
    ("slimplm", {}),
    ("filco", {}),
    ("react", {}),
    ("self_ask", {}),
    ("flare", {}),
]


@pytest.mark.parametrize(("method", "options"), ANSWERS)
def test_one_setting_of_the_clause_on_unknown(method: str, options: dict[str, Any]) -> None:
    said = asked(method, "ours", unknown=True, **options)
    assert "Unknown" in said.split("\n=====\n")[-1]
    assert "Unknown." not in asked(method, "ours", unknown=False, **options)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("short", "give only the answer, in as few words as it takes"),
        ("long", "give the answer in a few complete sentences"),
        ("yes_no", "give Yes or No as the answer, and nothing else"),
    ],
)
def test_chain_of_thought_asks_for_the_answer_behind_the_reasoning(kind: Any, said: str) -> None:
    """Asked for few words in a sentence of its own, small models answer at once, mostly Unknown."""
    asked_for = {
        unknown: asked("cot", "ours", {"question": QUESTION, "answer_type": kind}, unknown=unknown)
        for unknown in (True, False)
    }
    for unknown, prompt in asked_for.items():
        rest = ", or Unknown if you don't know it." if unknown else "."
        assert prompt.endswith(f'"So the answer is …". Behind these words, {said}{rest}')


def test_a_users_conclusion_gets_the_clause_on_unknown_behind_it() -> None:
    mine = {"cot": "{question} Reason, then {conclusion}."}
    said = asked("cot", "ours", prompts=mine, unknown=True)
    assert said.endswith("in as few words as it takes, or Unknown if you don't know it.")


SAID_IN_A_VALUE = [
    ("chain_of_note", {}, "answer from what you know."),
    ("chain_of_note", {"own_knowledge": False}, ""),
    ("sure", {}, "candidates"),
]


@pytest.mark.parametrize(("method", "options", "kept"), SAID_IN_A_VALUE)
@pytest.mark.parametrize("unknown", ["method", True, False])
def test_a_clause_that_a_method_says_itself_is_said_once_or_not_at_all(
    method: str, options: dict[str, Any], kept: str, unknown: Any
) -> None:
    said = asked(method, "ours", unknown=unknown, **options).split("\n=====\n")
    answer = next(one for one in reversed(said) if kept in one)
    assert answer.count("just say Unknown") == (unknown is not False)


def test_what_is_asked_again_follows_the_setting() -> None:
    for unknown in (True, False):
        model = ScriptedChat(replies=["<passage 1>", "Ada"])
        given = {"question": QUESTION, "passages": ["Ada built it."]}
        build_graph("concat", model=model, unknown=unknown).invoke(given)
        again = " ".join(str(one.text) for one in model.seen[1].messages)
        assert ("just say Unknown" in again) is unknown


WARM = [
    *((method, "paper", 0.0) for method in ("blendfilter", "ircot", "sure", "filco", "concat")),
    *((method, "paper", 0.0) for method in ("chain_of_note", "dos_rag")),
    *((method, "slimplm", 0.01) for method in ("slimplm", "react", "self_ask", "astute")),
    *((method, "blendfilter", 0.0) for method in ("react", "self_ask", "crag")),
]


@pytest.mark.parametrize(("method", "profile", "temperature"), WARM)
def test_every_call_has_the_papers_temperature_unless_the_caller_chose(
    method: str, profile: str, temperature: float
) -> None:
    def sent(**options: Any) -> set[Any]:
        model = ScriptedChat(replies=scripted)
        found = ListRetriever(documents=DOCS)
        graph = build_graph(method, model=model, retriever=found, **options)
        graph.invoke({"question": QUESTION})
        return {seen.settings.get("temperature") for seen in model.seen}

    assert sent(profile=profile) == {temperature}
    drafts = {0.01} if method == "slimplm" else set()
    assert sent(profile=profile, sample_temperature=0.5) <= {None, 0.5} | drafts
    assert sent() <= {None} | drafts


@pytest.mark.parametrize(
    ("method", "options", "most"),
    [
        ("direct", {"profile": "slimplm"}, 512),
        ("cot", {"profile": "slimplm"}, 512),
        ("iter_retgen", {"profile": "slimplm"}, 512),
        ("direct", {"profile": "slimplm", "reply_tokens": 90}, 90),
        ("direct", {"profile": "slimplm", "answer_type": "yes_no"}, 32),
        ("filco", {"profile": "paper", "filter": "full"}, 128),
        ("filco", {"profile": "paper", "filter": "full", "answer_type": "long"}, 128),
        ("filco", {"profile": "paper", "filter": "full", "reply_tokens": 90}, 90),
        ("direct", {"profile": "blendfilter"}, 64),
        ("direct", {}, 64),
    ],
)
def test_an_answer_may_be_as_long_as_in_the_paper(
    method: str, options: dict[str, Any], most: int
) -> None:
    model = ScriptedChat(replies=scripted)
    found = ListRetriever(documents=DOCS)
    graph = build_graph(method, model=model, retriever=found, **options)
    graph.invoke({"question": QUESTION})
    assert {seen.settings["max_tokens"] for seen in model.seen} == {most}


def test_filcos_prompts_are_as_long_as_its_models_read() -> None:
    assert method_options(METHODS["filco"], {"profile": "paper"}).prompt_tokens == 1024
    own = method_options(METHODS["filco"], {"profile": "paper", "prompt_tokens": 90})
    assert own.prompt_tokens == 90


def test_a_draft_that_is_left_to_the_model_stays_so() -> None:
    model = ScriptedChat(replies=scripted)
    found = ListRetriever(documents=DOCS)
    graph = build_graph(
        "slimplm", model=model, retriever=found, profile="paper", proxy_temperature=None
    )
    graph.invoke({"question": QUESTION})
    assert ["temperature" in seen.settings for seen in model.seen][:2] == [False, True]


class BaseChatOpenAI(ScriptedChat):
    """Taken for langchain-openai's, whose server refuses some of its models a temperature."""

    model_name: str = "o3-mini"
    reasoning_effort: str | None = None


OPENAIS: list[tuple[dict[str, Any], bool]] = [
    ({"model_name": "o3-mini"}, False),
    ({"model_name": "gpt-5-nano"}, False),
    ({"model_name": "gpt-5.1", "reasoning_effort": "none"}, True),
    ({"model_name": "gpt-5-chat-latest"}, True),
    ({"model_name": "gpt-4o"}, True),
]


@pytest.mark.parametrize("profile", ["paper", "slimplm", "ours"])
@pytest.mark.parametrize(("settings", "taken"), OPENAIS)
def test_a_model_that_refuses_a_temperature_is_sent_none_unasked(
    profile: str, settings: dict[str, Any], taken: bool
) -> None:
    model = BaseChatOpenAI(replies=scripted, **settings)
    found = ListRetriever(documents=DOCS)
    graph = build_graph("slimplm", model=model, retriever=found, profile=profile, constrain=False)
    graph.invoke({"question": QUESTION})
    assert any({"temperature", "top_p"} & seen.settings.keys() for seen in model.seen) is taken


def test_a_draw_that_was_asked_for_is_sent_to_any_model() -> None:
    model = BaseChatOpenAI(replies=scripted)
    found = ListRetriever(documents=DOCS)
    options = {"proxy_temperature": 0.5, "constrain": False}
    graph = build_graph("slimplm", model=model, retriever=found, **options)
    graph.invoke({"question": QUESTION})
    drafted, *others = [{"temperature", "top_p"} & seen.settings.keys() for seen in model.seen]
    assert drafted == {"temperature"} and not any(others)
    model = BaseChatOpenAI(replies=["Ada."])
    given = {"question": QUESTION, "passages": ["Ada built it."]}
    build_graph("concat", model=model, sample_temperature=0.5, top_p=0.9).invoke(given)
    assert {"temperature": 0.5, "top_p": 0.9}.items() <= model.seen[0].settings.items()


@pytest.mark.parametrize("gate", ["variance", "dissimilarity"])
def test_the_drafts_of_a_gate_are_drawn_without_a_temperature_where_none_is_taken(
    gate: str,
) -> None:
    model = BaseChatOpenAI(replies=["Ada."])
    given = {"question": QUESTION, "passages": ["Ada built it."]}
    build_graph("uncertainty_gate", model=model, gate=gate).invoke(given)
    assert not any("temperature" in seen.settings for seen in model.seen)
