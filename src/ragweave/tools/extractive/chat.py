"""The embedded default model: a LangChain chat model that quotes the passages it is given.

`Reader` finds answers in passages: short, long, yes or no, or the best of given candidates.
`reply` is the model's reply to each task, and `ExtractiveChat` the chat model itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from ragweave.state import AnswerType
from ragweave.tools.extractive import minilm
from ragweave.tools.extractive.evidence import (
    Evidence,
    answer_clause,
    fill_gap,
    object_of_verb,
    rank_sentences,
)
from ragweave.tools.extractive.question import Question, analyse, negated, terms
from ragweave.tools.extractive.ranking import RankedSpan, rank_spans
from ragweave.tools.extractive.spans import Span, spans
from ragweave.tools.models.tasks import Task, TaskName, TaskPassage, task_of
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.sentences import split_sentences
from ragweave.state import UNKNOWN

_MIN_CONFIDENCE = {"phrase": 0.12, "list": 0.12}
"""Confidence below which the clause is given, for kinds that a wrong word answers worst."""

_LEXICAL_THRESHOLD, _MINILM_THRESHOLD = 0.36, 0.42
"""Default thresholds, chosen on NQ-open with and without distractors: words alone; MiniLM."""
_MIN_SHARE = 0.3
"""Probability that a quoted sentence holds the answer, at least."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How passages are read: the similarity in use and the support an answer needs."""

    threshold: float
    use_minilm: bool

    def evidence(self, question: str, passages: Sequence[TaskPassage]) -> list[Evidence]:
        """Return the sentences that reach the threshold, best first."""
        found = rank_sentences(analyse(question), passages, use_minilm=self.use_minilm)
        return [one for one in found if one.score >= self.threshold]

    def answer(self, task: Task) -> str:
        """Return the answer to a task's question from its passages, or Unknown."""
        found = self.evidence(task["question"], task.get("passages", []))
        if not found:
            return UNKNOWN
        question = analyse(task["question"])
        kind: AnswerType = task.get("answer_type", "short")
        if kind == "yes_no" or (kind == "short" and question.kind == "yes_no"):
            return yes_no(question, found[0])
        given = best_supported(task.get("candidates", []), found)
        if given:
            return given
        if kind == "long":
            return " ".join(one.text for one in supporting_sentences(question, found))
        return short_answer(question, found)


def short_answer(question: Question, found: Sequence[Evidence]) -> str:
    """Return the most probable span of `found`, or a clause where none is probable enough."""
    filled = fill_gap(question, found)
    if filled:
        return filled
    if question.kind == "definition" or object_of_verb(question, found[0].text):
        return answer_clause(question, found[0])
    ranked_spans = rank_spans(question, found)
    if not ranked_spans or ranked_spans[0].confidence < _MIN_CONFIDENCE.get(question.kind, 0.0):
        return answer_clause(question, found[0])
    return with_enumeration(ranked_spans[0])


def with_enumeration(ranked: RankedSpan) -> str:
    """Return a span, and with it the enumeration that a colon behind it announces."""
    after = ranked.evidence.text[ranked.end :]
    return (ranked.text + after).rstrip(" .;") if after.startswith(": ") else ranked.text


def supporting_sentences(question: Question, found: Sequence[Evidence]) -> list[Evidence]:
    """Return the one to three sentences that likely hold the answer, in reading order.

    A sentence counts where its spans have a share of the ranker's probability; where no span
    answers (a definition, yes or no), the best-supported sentence does.
    """
    if not found or question.kind in ("definition", "yes_no"):
        return list(found[:1])
    shares: dict[Evidence, float] = {}
    for ranked in rank_spans(question, found):
        shares[ranked.evidence] = shares.get(ranked.evidence, 0.0) + ranked.confidence
    best = [one for one, share in shares.items() if share >= _MIN_SHARE] or list(found[:1])
    return sorted(best[:3], key=lambda one: (one.passage, one.position))


def yes_no(question: Question, best: Evidence) -> str:
    """Return Yes where question and sentence agree in negation, else No."""
    return "Yes" if negated(question.text) == negated(best.text) else "No"


def best_supported(candidates: Sequence[str], found: Sequence[Evidence]) -> str:
    """Return the candidate found in the best-supported sentence, or "" for none.

    Ties, as between candidates of one sentence, go to the earlier candidate.
    """
    best, best_score = "", 0.0
    texts = [(f" {normalize_answer(one.text)} ", one.score) for one in found] if candidates else []
    for candidate in candidates:
        wanted = normalize_answer(candidate)
        if not wanted or is_unknown(candidate):
            continue
        score = max((reached for text, reached in texts if f" {wanted} " in text), default=0.0)
        if score > best_score:
            best, best_score = candidate, score
    return best


def reader_for(similarity: str, threshold: float | None) -> Reader:
    """Return the reader that a model's settings ask for on this machine."""
    mixed = similarity == "minilm" or (similarity == "auto" and minilm.available())
    tuned = _MINILM_THRESHOLD if mixed else _LEXICAL_THRESHOLD
    return Reader(tuned if threshold is None else threshold, mixed)


_CONCLUSION = re.compile(r"\banswer(?: to [^.:\n]{1,80})?(?: is:?|:)\s*", re.IGNORECASE)
_MAX_CLAIMS = 5
"""Most claims that a draft is split into."""


def reply(task: Task, reader: Reader) -> str:
    """Return the model's reply to `task`; the same task always gets the same reply."""
    return _REPLIES[task["task"]](task, reader)


def _answer(task: Task, reader: Reader) -> str:
    return reader.answer(task)


def _reason(task: Task, reader: Reader) -> str:
    """Quote the supporting sentences, then conclude."""
    found = reader.evidence(task["question"], task.get("passages", []))
    quotes = " ".join(one.text for one in supporting_sentences(analyse(task["question"]), found))
    return f"{quotes} So the answer is {_with_full_stop(reader.answer(task))}".strip()


def _next_step(task: Task, reader: Reader) -> str:
    return f"So the final answer is: {_with_full_stop(reader.answer(task))}"


def _extract(task: Task, reader: Reader) -> str:
    """Read the answer off the draft: its conclusion, else its best span."""
    draft = task.get("draft", "").strip()
    concluded = list(_CONCLUSION.finditer(draft))
    if concluded:
        rest = split_sentences(draft[concluded[-1].end() :])
        return rest[0].text.rstrip(".!") if rest else UNKNOWN
    if is_unknown(draft):
        return UNKNOWN
    if len(draft.split()) <= 5:
        return draft.rstrip(".!")
    question = analyse(task["question"])
    passage: TaskPassage = {"id": "", "title": "", "text": draft}
    return short_answer(question, rank_sentences(question, [passage], use_minilm=reader.use_minilm))


def _judge(_task: Task, _reader: Reader) -> str:
    return "<Known(False)>"


def _retrieval_decision(_task: Task, _reader: Reader) -> str:
    return "Yes"


def _one_search(_task: Task, _reader: Reader) -> str:
    """Choose one search: nothing is known from memory, and no reasoning is written."""
    return "one"


def _rewrite(task: Task, _reader: Reader) -> str:
    """Give each sentence of the draft as a claim that is its own query."""
    draft = task.get("draft", "").strip() or task["question"]
    claims = [" ".join(sentence.text.split()) for sentence in split_sentences(draft)]
    return (
        "\n".join(f"<Claim> {claim} <Query> {claim}" for claim in claims[:_MAX_CLAIMS]) or UNKNOWN
    )


def _topic(task: Task, _reader: Reader) -> str:
    return _topic_of(_bounded(task["question"])).text or UNKNOWN


def _bounded(question: str) -> str:
    return analyse(question).text.strip().rstrip("?")


def _topic_of(question: str) -> Span:
    """Return the name of a question, else its longest phrase, else all of it."""
    found = [span for span in spans(question) if span.kind in ("name", "quote", "phrase")]
    later = [span for span in found if span.start] or found
    named = [span for span in later if span.kind != "phrase"] or later
    whole = Span(question, 0, len(question), "phrase")
    return max(named, key=lambda span: (len(terms(span.text)), -span.start), default=whole)


def _filter(task: Task, reader: Reader) -> str:
    """Return the numbers of the passages that hold a sentence above the threshold."""
    found = reader.evidence(task["question"], task.get("passages", []))
    kept = sorted({one.passage + task.get("first", 0) for one in found})
    return ", ".join(map(str, kept)) or "none"


_PRONOUN = re.compile(
    r"\b(?:(its|their|his)|it|they|them|he|she|him|her|this|that|these|those)\b(?!['’])", re.I
)


def _restate(task: Task, _reader: Reader) -> str:
    """Put the topic of an earlier question in the place of a pronoun, or behind a bare follow-up."""
    question = task["question"]
    pronoun = _PRONOUN.search(question)
    if pronoun is None and len(terms(question)) >= _BARE:
        return question
    topic = _earlier_topic(task.get("candidates", []))
    if not topic:
        return question
    if pronoun is None:
        return f"{question.rstrip(' ?')} ({topic})?"
    named = f"{topic}'s" if pronoun.group(1) else topic
    return question[: pronoun.start()] + named + question[pronoun.end() :]


def _earlier_topic(questions: Sequence[str]) -> str:
    """Return the topic of the latest question that names it; "" where none does.

    Args:
        questions: The earlier questions, the latest first.
    """
    for at, question in enumerate(map(_bounded, questions), start=1):
        topic = _topic_of(question)
        says_nothing = topic.kind == "phrase" and not terms(topic.text)
        if says_nothing or is_unknown(topic.text):
            continue
        if not _leans(question, topic, first=at == len(questions)):
            return topic.text
    return ""


def _leans(question: str, topic: Span, *, first: bool) -> bool:
    """Say whether a question's own topic stands in a question before it.

    A name stands for itself, and so does what a relative "that" follows; a pronoun in front of it
    stands for something else. A bare phrase ("in winter?") is a follow-up unless it comes first.
    """
    is_name, pronoun = topic.kind != "phrase", _PRONOUN.search(question)
    if pronoun is None:
        return not (is_name or first) and len(terms(question)) < _BARE
    between = question[topic.end : pronoun.start()]
    is_relative = pronoun.group().lower() == "that" and not between.strip()
    return pronoun.start() < topic.end or not (is_name or is_relative)


_BARE = 2
"""Content words below which a question without a pronoun is taken for a follow-up."""


def _grade(task: Task, reader: Reader) -> str:
    """Say whether a passage holds a sentence above the threshold."""
    found = reader.evidence(task["question"], task.get("passages", []))
    return "Correct" if found else "Incorrect"


def _sufficient(task: Task, reader: Reader) -> str:
    """Say whether any passage holds a sentence above the threshold."""
    return "Yes" if reader.evidence(task["question"], task.get("passages", [])) else "No"


_REPLIES: dict[TaskName, Callable[[Task, Reader], str]] = {
    "answer": _answer,
    "reason": _reason,
    "extract": _extract,
    "recall": _answer,
    "judge": _judge,
    "rewrite": _rewrite,
    "topic": _topic,
    "filter": _filter,
    "grade": _grade,
    "need": _retrieval_decision,
    "route": _one_search,
    "step": _next_step,
    "sufficient": _sufficient,
    "restate": _restate,
}


def _with_full_stop(answer: str) -> str:
    """Return `answer` with a full stop at its end."""
    return answer if answer.endswith((".", "!", "?")) else f"{answer}."


_PIECE = re.compile(r"\s*\S+|\s+")


class ExtractiveChat(BaseChatModel):
    """Answers with text from the passages, and says Unknown otherwise.

    It is not a language model: it writes nothing of its own beyond fixed phrases, knows nothing that
    the passages don't say, and follows no instruction. It finds the best-supported sentence by
    word overlap (and MiniLM's cosine, where installed) and in it the span that fits the question,
    with a linear ranker. It reads a prompt's structured inputs (`ragweave.tools.models.tasks`), never
    its text; a plain prompt without them is a closed-book question, and gets Unknown.

    The same messages always get the same reply. Tokens in `usage_metadata` are
    whitespace-separated words. `stop` is honoured; `temperature`, `max_tokens` and other settings
    of language models are accepted and have no effect. Safe under threads.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from ragweave.tools.models.tasks import attach
        >>> passage = {"id": "p", "title": "Eiffel Tower", "text": "It was finished in 1889."}
        >>> task = {"task": "answer", "question": "When was the Eiffel Tower finished?",
        ...         "passages": [passage]}
        >>> ExtractiveChat(similarity="lexical").invoke([attach(HumanMessage("?"), task)]).content
        '1889'
    """

    thinks: ClassVar[bool] = False
    """It writes nothing before its reply: one that is empty needs no room for thoughts."""

    similarity: Literal["auto", "lexical", "minilm"] = "auto"
    """How sentences are compared with the question: by words, with MiniLM mixed in, or the
    latter only where the `offline` extra is installed."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    """Support in [0, 1] that a sentence needs; below it the answer is Unknown. The default is
    chosen on NQ-open: 0.36 by words alone, 0.42 with MiniLM."""

    @property
    def model_name(self) -> str:
        """The name that traces show."""
        return "extractive"

    def warm_up(self) -> None:
        """Load MiniLM, where it is used."""
        if self.similarity == "minilm" or (self.similarity == "auto" and minilm.available()):
            minilm.cosines("warm up", ["warm up"])

    @property
    def _llm_type(self) -> str:
        return "extractive"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"similarity": self.similarity, "threshold": self.threshold}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,  # noqa: ARG002 - settings of language models, without effect here
    ) -> ChatResult:
        text = self._reply(messages, stop)
        message = AIMessage(
            content=text,
            usage_metadata=_usage(messages, text),
            response_metadata={"model_name": "extractive", "finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002 - as above
    ) -> Iterator[ChatGenerationChunk]:
        text = self._reply(messages, stop)
        for piece in _PIECE.findall(text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager is not None:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=_usage(messages, text),
                response_metadata={"model_name": "extractive", "finish_reason": "stop"},
                chunk_position="last",
            )
        )

    def _reply(self, messages: Sequence[BaseMessage], stop: Sequence[str] | None) -> str:
        """Return the reply to the task that `messages` carry, cut before the first stop word."""
        task = task_of(messages) or _closed_book(messages)
        text = reply(task, reader_for(self.similarity, self.threshold))
        cuts = [at for word in stop or () if word and (at := text.find(word)) >= 0]
        return text[: min(cuts)] if cuts else text


def _closed_book(messages: Sequence[BaseMessage]) -> Task:
    """Take a plain prompt's last human message as a question without passages."""
    asked = next((one.text for one in reversed(messages) if one.type == "human"), "")
    return {"task": "answer", "question": str(asked)}


def _usage(messages: Sequence[BaseMessage], text: str) -> UsageMetadata:
    """Count whitespace-separated words as tokens."""
    read = sum(len(str(message.text).split()) for message in messages)
    written = len(text.split())
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


def is_unknown(text: str) -> bool:
    """Say whether a text says Unknown."""
    return text.strip(" .").lower() in ("", "unknown")
