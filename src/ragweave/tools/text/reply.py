"""Model replies before parsing: their length, thinking blocks, and echoes of the prompt.

A reply may be of any length: a model may not stop, or a passage may provoke it. `bounded` limits
what is read, once, and all later patterns take time in proportion to that. `without_thinking` and
`ThinkingFlow` remove the block that reasoning models write before their answer.

Small models also copy from the prompt: a passage's delimiter (`<passage 6 title="…">`), the
question, a placeholder of the requested format ("its query"), or the answer of one of the prompt's
examples. None of these is an answer, a query or a claim, however well it parses (`echo_of`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from ragweave.tools.text.normalize import normalize_answer, words

MAX_REPLY = 20_000
"""Characters of a reply that are read; of a longer one half at its start and half at its end."""


def bounded(text: str) -> str:
    """Return `text`, or the two ends of one that is longer than `MAX_REPLY`."""
    if len(text) <= MAX_REPLY:
        return text
    half = MAX_REPLY // 2
    return f"{text[: half - 1]}\n{text[-half:]}"


def reply_text(message: BaseMessage) -> str:
    """Return a reply's text; "" of a message without any, such as one of tool calls alone.

    Lone surrogates, which break JSON, become question marks.
    """
    content: object = message.content  # a server may break the type
    text = message.text if isinstance(content, str | list) else ""
    return text.encode("utf-8", "replace").decode("utf-8")


def reported_tokens(message: BaseMessage) -> tuple[int, int] | None:
    """Return the input and output tokens that a server reports; None where they are no counts."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    if usage is None:
        return None
    counts: list[object] = [usage.get(name) for name in ("input_tokens", "output_tokens")]
    given, made = (one if isinstance(one, int) and one >= 0 else None for one in counts)
    return None if given is None or made is None else (given, made)


_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""Where a provider says why a reply ended; `stopReason` is Bedrock's."""


def cut_off(message: BaseMessage | None) -> bool:
    """Say whether the provider reports that a reply ended at its length limit."""
    metadata = message.response_metadata if message is not None else {}
    reasons = [metadata.get(name) for name in _REASONS]
    details = metadata.get("incomplete_details")
    if metadata.get("status") == "incomplete" and isinstance(details, Mapping):
        reasons.append(details.get("reason"))  # of OpenAI's Responses API
    return any(str(one).lower() in ("length", "max_tokens", "max_output_tokens") for one in reasons)


_GPT_OSS = ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>")
MARKS: Sequence[tuple[str, str]] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    _GPT_OSS,
)
"""How blocks begin and end: Qwen3, DeepSeek-R1, SmolLM3 and others; a variant; Mistral; Gemma 4;
gpt-oss (https://cookbook.openai.com/articles/openai-harmony)."""

_HEADS = ("<|start|>assistant<|channel|>", "<|start|><|channel|>", "<|channel|>")
"""How a message of gpt-oss may begin; its channel follows."""
_REST = r"[^<]{0,40}(?:<\|constrain\|>[^<]{0,40})?"
"""What may follow a channel's name: a recipient, and the form that the message is in."""


def _message(channels: str, end: str = r"<\|message\|>") -> str:
    """Return the pattern of what stands before the text of a message of gpt-oss."""
    heads = "|".join(map(re.escape, _HEADS))
    return rf"(?:{heads})(?:{channels}){_REST}{end}"


_FINAL = _message("final")
_PATTERNS = {marks: (re.escape(marks[0]), re.escape(marks[1])) for marks in MARKS}
_PATTERNS[_GPT_OSS] = (_message("analysis|commentary"), _FINAL)
_END = re.compile("|".join(end for _, end in _PATTERNS.values()), re.IGNORECASE)
_BLOCK = re.compile(
    "|".join(rf"{begin}.*?(?:{end}|\Z)" for begin, end in _PATTERNS.values()),
    re.DOTALL | re.IGNORECASE,
)


def without_thinking(reply: str) -> str:
    """Return a reply's text outside of thinking blocks, without space at its ends.

    A block may lack its opening mark, because chat templates often write it themselves; text
    before a lone closing mark is thinking. A block that lacks its closing mark was cut off and
    contains no answer.
    """
    return _END.split(_BLOCK.sub("\n", reply))[-1].strip()


def open_mark(prompt: str) -> tuple[str, str] | None:
    """Return the marks of the block that a prompt leaves open at its end; None where none is."""
    text = prompt.rstrip()
    return next((marks for marks in MARKS if text.endswith(marks[0])), None)


_BEGINNINGS = [
    *(begin for begin, _ in MARKS),
    *(f"{head}{channel}" for head in _HEADS for channel in ("analysis", "commentary", "final")),
]
_UNFINISHED = re.compile(_message("analysis|commentary|final", r"(?:<[^<>]{0,12})?"))
"""The beginning of a message of gpt-oss that is not all there yet."""
_LONGEST_MARK = 160
"""Characters; no mark is longer."""


class ThinkingFlow:
    """Separates the thinking block from a reply as it grows.

    A block counts only at the beginning: later on the marks are ordinary text.
    """

    def __init__(self, marks: tuple[str, str] | None = None) -> None:
        """Begin a reply, inside a block where the prompt opened one with `marks`."""
        self._state: Literal["start", "thinking", "behind", "speaking"]
        self._state = "start" if marks is None else "thinking"
        self._end = "" if marks is None else marks[1]
        self._held = ""
        self.thought = ""
        """What was thought so far."""

    @property
    def thinking(self) -> bool:
        """Whether the block is open."""
        return self._state == "thinking"

    @property
    def behind(self) -> bool:
        """Whether nothing but white space, which is dropped, has come behind the block."""
        return self._state == "behind"

    @property
    def undecided(self) -> int:
        """Characters held back because they may begin a block."""
        return len(self._held) if self._state == "start" else 0

    @property
    def end(self) -> str:
        """The mark that ends the open block."""
        return self._end

    def push(self, text: str) -> str:
        """Take text; return what of it is known to be spoken."""
        if self._state == "speaking":
            return text
        self._held += text
        if self._state == "start":
            self._begin()
        if self._state == "thinking":
            self._think()
        if self._state == "behind":
            self._held = self._held.lstrip()
            if self._held:
                self._state = "speaking"
        return self._take() if self._state == "speaking" else ""

    def flush(self) -> str:
        """Return what is held back and spoken: no more text will come."""
        if self._state == "thinking":
            self.thought += self._take()
        return self._take()

    def _begin(self) -> None:
        said = self._held.lstrip()
        for (_, end), (begin, _) in _PATTERNS.items():
            if found := re.match(begin, said):
                self._state, self._end, self._held = "thinking", end, said[found.end() :]
                return
        if found := re.match(_FINAL, said):
            self._state, self._held = "behind", said[found.end() :]
            return
        started = any(begin.startswith(said) for begin in _BEGINNINGS)
        if not started and not _UNFINISHED.fullmatch(said):
            self._state = "speaking"

    def _think(self) -> None:
        end = rf"(?:<\|end\|>)?{_FINAL}" if self._end == _GPT_OSS[1] else re.escape(self._end)
        if found := re.search(end, self._held):
            self.thought += self._held[: found.start()]
            self._state, self._held = "behind", self._held[found.end() :]
            return
        cut = max(0, len(self._held) - _LONGEST_MARK)
        self.thought += self._held[:cut]
        self._held = self._held[cut:]

    def _take(self) -> str:
        held, self._held = self._held, ""
        return held


class Examples(NamedTuple):
    """What a prompt's examples say."""

    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class PromptParts(NamedTuple):
    """The parts of a prompt that a reply may copy."""

    question: str = ""
    examples: Examples = Examples()
    observed: str = ""
    """Text that may support an answer: the passages, or what was found so far."""


NO_PARTS = PromptParts()
"""Nothing is known of the prompt."""

EchoKind = Literal["", "delimiter", "question", "placeholder", "example"]

_LONGEST = 2000
"""Characters of a text that may be an echo; what is longer says something of its own."""
_DELIMITER = re.compile(
    r"[\W_]{0,9}(?:passage|knowledge|sentence|document)s? ?\d{1,4}(?: title ?=.*)?[\W_]{0,9}"
    r"|\W{0,9}< ?/? ?(?:passage|knowledge|question|answer|context|candidate)s?\b[^>]*>?\W{0,9}",
    re.IGNORECASE,
)
_MARKED_QUESTION = re.compile(r"[\W_]{0,9}(?:question|q)[*_ ]{0,4}[:：]", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"(?:(?:its|the|a|an|your|my|first|second|third|next|some|final|short|insert|write|give)[ ]){0,3}"
    r"(?:answer|query|claim|sub-?question|search (?:query|text)|text)(?:[ ](?:here|text))?"
    r"|a (?:name|date|number|phrase)|the first question"
    r"|a name,? a date,? a number,? or a phrase",
    re.IGNORECASE,
)
_WORD_ALONE = re.compile(r"[\"'“”‘’*_`]*(?P<article>an? )?[^\W_]+[\"'“”‘’*_`.]*", re.IGNORECASE)
"""One word, not in the brackets of a form that is to be filled in."""
_EDGES = " \t\r\n.,:;!?…*_`\"'“”‘’()[]{}<>-"
_YES_NO = frozenset({"yes", "no", "true", "false"})
_POLAR = re.compile(
    r"(?:^|[,;:] )(?:is|are|was|were|am|do|does|did|can|could|will|would|has|have|had|should|may"
    r"|might|must)\b",
    re.IGNORECASE,
)

_ASKS = re.compile(r"\b(?:who|whom|whose|which|what|when|where|how|why)\b", re.IGNORECASE)
_ASKS_ONE = re.compile(r"(?:can|could|do|did|will|would|have) you\b", re.IGNORECASE)
_FUNCTION_WORDS = frozenset(
    words(
        "who whom whose which what when where how why that this it its is are was were be been do"
        " does did has have had of in on at to by for from with and as"
    )
)
_COMPARES = re.compile(
    r"\b(?:or|between|both|same|than|more|most|less|fewer|first|last|before|after|older|oldest"
    r"|younger|youngest|earlier|earliest|later|latest|larger|largest|smaller|bigger|longer|shorter"
    r"|higher|lower|taller|closer|nearer|faster|newer|better|greater)\b",
    re.IGNORECASE,
)
_CHOOSES = re.compile(r"\b(?:or|between)\b", re.IGNORECASE)
"""How a question asks for one of two; "Are both …" and "Is it older than …" ask for Yes or No."""
_NAMES_AT_ITS_END = re.compile(r"\b(?:is|are|was|were) (?:the |a |an )?\S+\W*\Z", re.IGNORECASE)
"""The Who, It, Them: a name may be made of words that tell nothing."""
_RESTATED_WORDS = 5
"""Words that tell something, in an answer that restates its question; a shorter one may name."""


def is_echo(said: str, parts: PromptParts = NO_PARTS) -> bool:
    """Return whether an answer, a query or a claim is an echo of the prompt; see `echo_of`."""
    return bool(echo_of(said, parts))


def echo_of(said: str, parts: PromptParts = NO_PARTS) -> EchoKind:
    """Return what of the prompt `said` is an echo of, or "".

    * `delimiter`: the mark around a passage, with or without its title, or its number.
    * `placeholder`: "its query", "the answer", `[your answer here]`; "query" alone where neither
      the question nor anything observed holds that word, and "a date" where the question doesn't.
    * `question`: the question itself, word for word.
    * `example`: what an example of the prompt answers, asks or searches, word for word, where
      neither the question nor anything observed holds it. Yes and No count only where the
      question does not ask for them.

    Args:
        said: What was read off a reply.
        parts: What the prompt said.
    """
    text = " ".join(said[: _LONGEST + 1].split())
    if not text or len(text) > _LONGEST:
        return ""
    if _DELIMITER.fullmatch(text):
        return "delimiter"
    if _PLACEHOLDER.fullmatch(text.strip(_EDGES)) and not _names(text, parts):
        return "placeholder"
    plain = normalize_answer(_MARKED_QUESTION.sub("", text, count=1))
    if not plain:
        return ""
    asked = normalize_answer(parts.question[:_LONGEST])
    if plain == asked:
        return "question"
    return "example" if _of_example(plain, asked, parts) else ""


def asks_yes_or_no(question: str) -> bool:
    """Return whether a question begins as one that Yes or No answers, and asks nothing else."""
    asked = question[:_LONGEST].lstrip()
    plain = _POLAR.match(asked) and not _ASKS_ONE.match(asked)
    return bool(plain) and not _ASKS.search(asked) and not _CHOOSES.search(asked)


def restates(answer: str, question: str) -> bool:
    """Return whether an answer only states the question again, as if that answered it.

    "The band made the song and had a drummer from Toronto", where just that band is asked for:
    no word is new or said once more, and most of the question's are there. A question for Yes or
    No, or one that compares what it names, may be answered by its own words, and so may any by a
    word behind "is".
    """
    asked, said = question[:_LONGEST], answer[:_LONGEST]
    if not _ASKS.search(asked) or _POLAR.search(asked) or _COMPARES.search(asked):
        return False
    if _NAMES_AT_ITS_END.search(said):
        return False
    known, found = (Counter(normalize_answer(one).split()) for one in (asked, said))
    telling = found.keys() - _FUNCTION_WORDS
    enough = 4 * len(telling) >= 3 * len(known.keys() - _FUNCTION_WORDS)
    return (
        len(telling) >= _RESTATED_WORDS
        and enough
        and all(found[word] <= known[word] for word in telling)
    )


def examples_in(
    text: str, *, questions: str = "", answers: str = "", queries: str = ""
) -> Examples:
    """Return what a prompt's examples say, found by patterns with one group each."""
    found = (tuple(re.findall(one, text)) if one else () for one in (questions, answers, queries))
    return Examples(*found)


def _of_example(plain: str, asked: str, parts: PromptParts) -> bool:
    """Is a normalised text an example's, and supported by nothing else?"""
    examples = parts.examples
    if plain not in {normalize_answer(one) for group in examples for one in group}:
        return False
    if asked in {normalize_answer(one) for one in examples.questions}:
        return False
    if plain in _YES_NO:
        return not _POLAR.search(parts.question)
    return not _is_held(plain, parts)


def _names(text: str, parts: PromptParts) -> bool:
    """Say whether what could be a placeholder is a word that was asked or read about.

    Small models do write "a name" for a name, and passages hold that word.
    """
    alone = _WORD_ALONE.fullmatch(text)
    if alone is None:
        return False
    seen = parts._replace(observed="") if alone["article"] else parts
    return _is_held(normalize_answer(text), seen)


def _is_held(plain: str, parts: PromptParts) -> bool:
    """Say whether the question or what was observed holds a normalised text."""
    seen = normalize_answer(f"{parts.question}\n{parts.observed}")
    return bool(plain) and f" {plain} " in f" {seen} "
