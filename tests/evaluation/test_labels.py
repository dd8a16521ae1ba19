"""Training rows: what each labeller writes, and what it leaves out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.openai_server import OpenAIServer

from ragweave.errors import UsageError
from ragweave.evaluation.labels import LabelSettings, make_labels, write_labels
from ragweave.graphs.slimplm import Rewrite

Label = Callable[..., tuple[list[dict[str, Any]], dict[str, int]]]


@pytest.fixture
def label(tmp_path: Path) -> Label:
    """Labels rows, and returns the training rows and why questions gave none."""
    kinds: list[str] = []

    def make(
        kind: str, *rows: dict[str, Any], given: dict[str, Any] | None = None, **more: Any
    ) -> tuple[list[dict[str, Any]], dict[str, int]]:
        kinds.append(kind)
        data, folder = tmp_path / f"{len(kinds)}.jsonl", tmp_path / f"labels{len(kinds)}"
        data.write_text("\n".join(map(json.dumps, rows)))
        settings = LabelSettings(kind=kind, data=str(data), **more)
        assert make_labels(settings, folder, given=given, quiet=True).exit_code == 0
        assert make_labels(settings, folder, given=given, quiet=True).skipped == len(rows)
        path, _, dropped = write_labels(folder)
        return [json.loads(line) for line in path.read_text().splitlines()], dict(dropped)

    return make


def known(draft: str, answers: list[str], **more: Any) -> dict[str, Any]:
    return {"id": draft[:9], "question": "Who built it?", "draft": draft, "answers": answers, **more}


def test_a_draft_with_the_answers_is_known(label: Label) -> None:
    rows, dropped = label(
        "judge",
        known("It was built by the Ida Holm company.", ["Ida Holm", "I. Holm"]),
        known("I do not know.", ["Ida Holm"]),
        known("No.", ["no"]),
        {"id": "x", "question": "Who?", "draft": "me"},
        {"id": "y", "question": "Who?", "answers": ["Ida Holm"]},
        draft="draft",
    )
    assert [(row["known"], row["match_ratio"]) for row in rows] == [(True, 1.0), (False, 0.0)]
    assert rows[0]["answers"] == [["Ida Holm", "I. Holm"]]
    assert set(rows[0]) == {"id", "question", "draft", "known", "answers", "match_ratio"}
    why = "a yes or no answer, for which a match ratio says nothing"
    assert dropped == {why: 1, "no short answer": 1, "no draft": 1}


def test_names_may_count_apart_as_in_the_released_labels(label: Label) -> None:
    row = known("It was Ida Holm.", ["Ida Holm", "I. Holm", "Ida K. Holm"])
    assert label("judge", row, draft="draft")[0][0]["known"] is True
    assert label("judge", row, draft="draft", split_names=True)[0][0]["known"] is False


def test_the_larger_class_is_sampled_down(label: Label) -> None:
    rows = [known(f"{at} Ida", ["Ida"]) for at in range(6)] + [known(f"{at} nobody", ["Ida"]) for at in range(6, 8)]
    rows, dropped = label("judge", *rows, draft="draft", balance=True)
    assert sorted(row["known"] for row in rows) == [False, False, True, True]
    assert dropped == {"to balance known and unknown": 4}


@pytest.mark.loopback
def test_a_proxy_drafts(label: Label, server: OpenAIServer, spec: str) -> None:
    server.script = lambda _: "<think>hm</think>Ida Holm built it."
    rows, _ = label("judge", {"id": "1", "question": "Who?", "answer": "Ida Holm"}, models={"proxy": spec})
    assert (rows[0]["draft"], rows[0]["known"]) == ("Ida Holm built it.", True)
    assert server.requests[0].body["messages"] == [{"content": "Who?", "role": "user"}]
    assert server.requests[0].body["temperature"] == 0.01


PASSAGES = {
    "question": "When did the bridge open?",
    "answers": ["1931"],
    "passages": [
        {"id": "a", "title": "Bridge", "text": "It is red. It opened in 1931. It is long."},
        {"id": "b", "text": "Nothing here.", "is_gold": True},
    ],
}


def test_sentences_that_hold_the_answer_are_silver(label: Label) -> None:
    rows, _ = label("filter", PASSAGES, measure="strinc")
    [row] = rows
    gold, other = row["passages"]
    assert gold["text"] == "Nothing here."
    [span] = row["spans"]
    text = other["text"]
    assert (span["passage_id"], span["text"]) == (other["id"], "It opened in 1931.")
    assert text[span["start"] : span["end"]] == span["text"]
    assert row["source"] == {"measure": "strinc", "unit": "sentence"}


def test_passages_may_be_kept_or_dropped_whole(label: Label) -> None:
    rows, _ = label("filter", PASSAGES, unit="passage", top=None)
    assert [span["text"] for span in rows[0]["spans"]] == [PASSAGES["passages"][0]["text"]]  # type: ignore[index]


def test_full_keeps_everything(label: Label) -> None:
    rows, _ = label("filter", PASSAGES, measure="full")
    assert len(rows[0]["spans"]) == 4


def test_what_annotators_selected_is_gold(label: Label) -> None:
    row = {
        "id": "1",
        "question": "When?",
        "answer": "1931",
        "context": [["Bridge", ["It is red.", "It opened in 1931."]], ["Other", ["No."]]],
        "supporting_facts": [["Bridge", 1]],
    }
    rows, _ = label("filter", row, measure="gold")
    assert [span["text"] for span in rows[0]["spans"]] == ["It opened in 1931."]


class Scorer:
    """Says that an output is likelier after a text that holds it."""

    def score(self, pairs: Any) -> list[float]:
        return [-1.0 if output in prompt else -5.0 for prompt, output in pairs]


def test_cxmi_needs_a_scorer(label: Label) -> None:
    rows, _ = label("filter", PASSAGES, measure="cxmi", given={"scorer": Scorer()})
    assert [(span["text"], span["score"]) for span in rows[0]["spans"]] == [("It opened in 1931.", 4.0)]
    with pytest.raises(UsageError, match="--model scorer="):
        label("filter", PASSAGES, measure="cxmi")


@pytest.mark.loopback
def test_a_question_needs_retrieval_if_only_that_answers_it(label: Label, server: OpenAIServer, spec: str) -> None:
    server.script = lambda body: "1931" if "opened in 1931" in json.dumps(body) else "1800"
    rows, dropped = label("needed", PASSAGES, {**PASSAGES, "answers": ["1750"]}, models={"generator": spec})
    assert [row["needed"] for row in rows] == [True]
    assert set(rows[0]) == {"id", "question", "needed"}
    assert dropped == {"as right without passages as with them": 1}


@pytest.mark.loopback
def test_retrieval_is_needed_where_it_finds_more_of_the_answers(label: Label, server: OpenAIServer, spec: str) -> None:
    """SlimPLM's released cell "filter training data for SKR", which compares shares of aliases."""
    row = {
        "ambiguous_question": "Who built it?",
        "qa_pairs": [
            {"short_answers": [name], "context": f"{name} built it.", "wikipage": "Bridge"}
            for name in ("Ida Holm", "Karl Oster")
        ],
    }
    both = "Ida Holm and Karl Oster."
    for alone, helped, needed in (("Ida Holm.", both, [True]), (both, "Ida Holm.", [False]), (both, both, [])):
        server.script = lambda body, alone=alone, helped=helped: helped if "<passage" in str(body) else alone
        assert [row["needed"] for row in label("needed", row, models={"generator": spec})[0]] == needed


REPLY = (
    "<Questions> <Question(Who built it?)> <NeedSearch(True)> <Query(Aster Bridge builder)> </Questions>\n"
    "<Claims> <Claim(Ida Holm built the Aster Bridge.)> <Search(True)> <Query(Aster Bridge)> </Claims>"
)


@pytest.mark.loopback
def test_a_teacher_annotates(label: Label, server: OpenAIServer, spec: str) -> None:
    server.script = lambda body: REPLY if "prepare web searches" in json.dumps(body["messages"]) else "Ida Holm did."
    row = {"id": "1", "question": "Who built the Aster Bridge?"}
    rows, _ = label("rewriter", row, models={"teacher": f"{spec}&n=1", "proxy": spec})
    assert rows[0] == {
        "id": "1",
        "question": row["question"],
        "draft": "Ida Holm did.",
        "target": REPLY.replace(".)", ")"),
    }
    read = Rewrite.from_text(rows[0]["target"])
    assert read is not None
    assert [(claim.text, claim.query) for claim in read.claims] == [("Ida Holm built the Aster Bridge", "Aster Bridge")]


def test_released_annotations_are_taken_as_they_are(label: Label) -> None:
    claims = [
        {"claim": "Ida Holm built <the> Aster Bridge.", "needSearch": True, "query": "Aster Bridge builder"},
        {"claim": "It is red.", "needSearch": True, "query": "colour"},
        {"claim": "Ida Holm was Norwegian.", "needSearch": False},
    ]
    row = {
        "question": "Who built the Aster Bridge?",
        "llama_without_search_answer": "Ida Holm, a Norwegian, built the Aster Bridge.",
        "llama_without_search_gpt4sep_claims": claims,
        "questions": [{"question": "Who built the Aster Bridge?", "needSearch": True, "searchWord": "Aster Bridge"}],
    }
    fields = {"draft": "llama_without_search_answer", "label": "llama_without_search_gpt4sep_claims"}
    rows, _ = label("rewriter", row, **fields)
    read = Rewrite.from_text(rows[0]["target"])
    assert read is not None
    assert [claim.text for claim in read.claims] == [
        "Ida Holm built the Aster Bridge",
        "It is red",
        "Ida Holm was Norwegian",
    ]
    assert [claim.needs_search for claim in read.claims] == [True, True, False]
    _, dropped = label("rewriter", {"question": "Who?"}, **fields)
    assert dropped == {"no draft": 1}


def test_no_such_labels_or_drafts(label: Label) -> None:
    with pytest.raises(UsageError, match="choose one of: judge, rewriter, filter, needed"):
        label("gold", PASSAGES)
    with pytest.raises(UsageError, match="--model proxy="):
        label("judge", PASSAGES)
