"""Questions that a model writes from a knowledge base, and the run over them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.openai_server import OpenAIServer, Reply

from ragweave import KnowledgeBase
from ragweave.datasets import open_dataset
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings, evaluate, read_report
from ragweave.evaluation.synthetic import Written, refusal, write_questions

PADDING = "It is one of the sights of the town, which many people visit, and on Sundays a small band plays there. " * 2


@pytest.fixture
def kb(tmp_path: Path) -> str:
    """A knowledge base of ten pages; each is about Bridge N and mentions the one before."""
    with KnowledgeBase.create(tmp_path / "kb") as base:
        for at in range(10):
            text = f"It was built after Aster Bridge {at - 1} in {1900 + at}. "
            metadata = {"source": f"page{at}.md", "title": f"Aster Bridge {at}"}
            base.add(Document(page_content=text + PADDING, metadata=metadata))
    return str(tmp_path / "kb")


def writes(body: dict[str, Any]) -> Reply:
    """Writes a question over the last passage of a prompt, and answers others by 1905."""
    asked = body["messages"][-1]["content"]
    if "Write one question" not in asked:
        return Reply("1905", (100, 10))
    year = re.findall(r"\b19\d\d\b", asked)[-1]
    who = "the engineer who saw its neighbour" if "Both passages" in asked else "the builder"
    return Reply(json.dumps({"question": f"When did {who} of 18{year[2:]} build it?", "answer": year}), (100, 10))


@pytest.mark.loopback
def test_a_run_over_questions_of_ones_own_documents(kb: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with OpenAIServer(writes) as server:
        settings = EvalSettings(
            data=f"jsonl:{run}/questions.jsonl", kb=kb, models={"generator": f"openai:m?base_url={server.base_url}"}
        )
        summary, refused = write_questions(settings, 8, run, quiet=True)
        assert (summary.exit_code, refused) == (0, {})
        questions = list(open_dataset(settings.data))
        assert sorted(len(question.gold) for question in questions) == [1] * 4 + [2] * 4
        assert all(question.answers[0] in question.passages[-1].page_content for question in questions)
        assert summary.calls == server.count == 8
        assert evaluate(settings, run, quiet=True).exit_code == 0
        assert read_report(run).lines[0].scores["recall"].n == 8
        assert write_questions(settings, 8, run, quiet=True)[0].calls == 8
        assert server.count == 16
        with pytest.raises(UsageError, match="began with count = 8, not 9"):
            write_questions(settings, 9, run, quiet=True)


@pytest.mark.loopback
def test_a_model_that_cannot_write_ends_early(kb: str, tmp_path: Path) -> None:
    with OpenAIServer(lambda _: "I like bridges.") as server:
        settings = EvalSettings(data="", kb=kb, models={"evaluator": f"openai:m?base_url={server.base_url}"})
        _, refused = write_questions(settings, 2, tmp_path / "run", quiet=True)
    assert refused == {"the reply cannot be read": 8}
    assert (tmp_path / "run" / "questions.jsonl").read_text() == ""


def test_extractive_writes_nothing(kb: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only quotes: name a chat model"):
        write_questions(EvalSettings(data="", kb=kb), 2, tmp_path / "run")
    assert not (tmp_path / "run").exists()


ONE = Document("Ada Brenner, an engineer of Graz, drew the bridge.")
TWO = Document("In Paris, Ada Brenner taught for nine years.")


@pytest.mark.parametrize(
    ("passages", "question", "answer", "why"),
    [
        ([ONE], "Who drew the bridge?", "Ada Brenner", ""),
        ([ONE], "Who drew the bridge?", "ADA BRENNER.", ""),
        ([ONE], "Who drew the bridge?", "Ida Brenner", "not a phrase"),
        ([ONE], "Who drew the bridge, Ada Brenner or Bob?", "Ada Brenner", "holds the answer"),
        ([ONE], "Who drew the bridge of the passage?", "Ada Brenner", "mentions its passage"),
        ([ONE], "Which document did Ada Brenner sign?", "the bridge", ""),
        ([ONE, TWO], "Where did the engineer who drew the bridge teach?", "Paris", ""),
        ([ONE, TWO], "Where did Ada Brenner teach?", "Paris", "one of the two"),
        ([ONE, TWO], "Who taught in Paris?", "Ada Brenner", "one of the two"),
    ],
)
def test_what_is_refused(passages: list[Document], question: str, answer: str, why: str) -> None:
    shared = ("Ada Brenner",) if len(passages) == 2 else ()
    reason = refusal(Written(question=question, answer=answer), passages, *shared)
    assert why in reason if why else not reason


@pytest.mark.parametrize(
    ("reply", "question", "answer"),
    [
        ("**Question:** Who drew it?\n**Answer:** Ada Brenner\n", "Who drew it?", "Ada Brenner"),
        (json.dumps({"question": 'Who drew "Dune"?', "answer": 'the "café"'}), 'Who drew "Dune"?', 'the "café"'),
        ('Here: {"question": "When was it drawn?", "answer": 1931}', "When was it drawn?", "1931"),
        ("{'question': 'When was it drawn?', 'answer': 'in 1931'}", "When was it drawn?", "in 1931"),
    ],
)
def test_what_a_model_without_structured_output_writes_is_read(reply: str, question: str, answer: str) -> None:
    assert Written.from_text(reply) == Written(question=question, answer=answer)
