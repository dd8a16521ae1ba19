"""The llama.cpp scorer against transformers, on the same weights."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="writing a test model needs the gguf package")

import tiny_gguf
from ragweave.errors import ModelError, RunTimeoutError, UsageError
from ragweave.llamacpp import LlamaCppChat
from ragweave.llamacpp.scorer import LlamaCppScorer
from ragweave.tools.deadline import ending_within
from ragweave.tools.scorers.specs import LogprobScorer, ascore

QUESTION = "Answer the question with the passages below. "
PAIRS = [
    (QUESTION + "the user asks", " the answer"),
    (QUESTION + "the user asks", " Unknown"),
    (QUESTION + "what is relevant in the document?", " é 12"),
    ("", "the model reads"),
    ("x", "y"),
    (QUESTION * 12, " the answer is not there. " * 3),
    ("the question", ""),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def chat(path: Path):
    made = LlamaCppChat(path=str(path), n_threads=1, n_ctx=1024, n_batch=128, max_tokens=8)
    yield made
    made.close()


def length(chat: LlamaCppChat, text: str) -> int:
    return len(chat.engine.vocabulary.encode(text))


@pytest.mark.parametrize("end_token", [True, False])
@pytest.mark.parametrize("flash_attention", [True, False])
def test_scores_equal_those_of_transformers(
    path: Path, end_token: bool, flash_attention: bool
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from ragweave.tools.scorers.huggingface import HuggingFaceScorer

    reference = HuggingFaceScorer(
        tiny_gguf.transformers_model(),
        tiny_gguf.transformers_tokenizer(),
        kind="causal",
        end_token=end_token,
    )
    scorer = LlamaCppScorer(
        path, end_token=end_token, n_threads=1, n_ctx=1024, flash_attention=flash_attention
    )
    got, expected = scorer.score(PAIRS), reference.score(PAIRS)
    for (_, continuation), ours, theirs in zip(PAIRS, got, expected, strict=True):
        tokens = length(scorer._chat, continuation) + end_token
        assert ours == pytest.approx(theirs, abs=1e-2 * max(tokens, 1))
    scorer._chat.close()


def test_its_name_is_its_file(chat: LlamaCppChat, path: Path) -> None:
    assert LlamaCppScorer(chat).model_name == LlamaCppScorer(path).model_name == str(path)


def test_it_is_a_scorer(chat: LlamaCppChat) -> None:
    assert isinstance(LlamaCppScorer(chat), LogprobScorer)
    assert LlamaCppScorer(chat).score([]) == []
    assert LlamaCppScorer(chat, end_token=False).score([("the question", "")]) == [0.0]


def test_company_does_not_change_a_score(chat: LlamaCppChat) -> None:
    scorer = LlamaCppScorer(chat)
    together = scorer.score(PAIRS * 3)
    for i, pair in enumerate(PAIRS):
        single = scorer.score([pair])[0]
        tolerance = 1e-2 * (length(chat, pair[1]) + 1)
        assert together[i :: len(PAIRS)] == pytest.approx([single] * 3, abs=tolerance)


def test_a_model_without_chat_template_scores(tmp_path: Path) -> None:
    bare = tiny_gguf.write(tmp_path / "bare.gguf", template=None)
    scorer = LlamaCppScorer(bare, n_threads=1, n_ctx=512)
    assert scorer.score(PAIRS[:1])[0] < 0
    scorer._chat.close()


def test_a_shared_prompt_is_computed_once(path: Path) -> None:
    scorer = LlamaCppScorer(path, n_threads=1, n_ctx=1024, end_token=False)
    engine = scorer._chat.engine
    prompt = QUESTION * 12
    scorer.score([(prompt, f" {i} the answer") for i in range(20)])
    tails = sum(length(scorer._chat, f" {i} the answer") for i in range(20))
    # The prompt once; of each continuation all but the last token, behind the prompt's last one.
    assert engine.computed <= length(scorer._chat, prompt) + tails
    scorer._chat.close()


def test_threads_tasks_and_replies_at_the_same_time(chat: LlamaCppChat) -> None:
    scorer = LlamaCppScorer(chat)
    expected = scorer.score(PAIRS)
    with ThreadPoolExecutor(8) as pool:
        scores = [pool.submit(scorer.score, PAIRS) for _ in range(8)]
        replies = [pool.submit(chat.invoke, "hello") for _ in range(8)]
        assert len({reply.result().content for reply in replies}) == 1
        for score in scores:
            assert score.result() == pytest.approx(expected, abs=0.3)
    assert asyncio.run(ascore(scorer, PAIRS)) == pytest.approx(expected, abs=0.3)


def test_a_prompt_that_does_not_fit_loses_its_beginning(chat: LlamaCppChat) -> None:
    scorer = LlamaCppScorer(chat, max_tokens=40)
    tail = " the answer"
    kept = 40 - length(chat, tail) - 1
    long = "x" * 300 + "y" * kept
    assert scorer.score([(long, tail)]) == pytest.approx(
        scorer.score([("y" * kept, tail)]), abs=0.1
    )


def test_what_can_not_be_scored_says_why(chat: LlamaCppChat, tmp_path: Path) -> None:
    scorer = LlamaCppScorer(chat)
    with pytest.raises(UsageError, match=r"has \d+ tokens, but the model takes 1024"):
        scorer.score([PAIRS[0], ("x", "y" * 2000)])
    with pytest.raises(UsageError, match="max_tokens"):
        LlamaCppScorer(chat, max_tokens=0)
    with pytest.raises(UsageError, match="settings"):
        LlamaCppScorer(chat, n_ctx=5)
    with pytest.raises(ModelError, match="no model file"):
        LlamaCppScorer(tmp_path / "none.gguf")
    with pytest.raises(RunTimeoutError, match="scoring took longer"):
        LlamaCppScorer(chat, timeout=0.0).score(PAIRS * 20)
    with ending_within(0.0), pytest.raises(RunTimeoutError, match="the run's time limit"):
        scorer.score(PAIRS * 20)
    assert scorer.score(PAIRS[:1])[0] < 0


def test_equal_pairs_are_computed_once(path: Path) -> None:
    model = LlamaCppChat(path=str(path), n_threads=1, n_ctx=1024, n_batch=128)
    scorer = LlamaCppScorer(model)
    pair = (QUESTION, " the user asks")
    first = scorer.score([pair])
    once = model.engine.computed
    assert scorer.score([pair] * 100) == pytest.approx(first * 100, abs=1e-3)
    assert model.engine.computed <= 2 * once
    model.close()
