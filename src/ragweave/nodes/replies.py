"""Reading an answer off a model's reply: forgiving in form, inventing nothing."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from langchain_core.messages import BaseMessage

from ragweave.state import AnswerType
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.thinking import without_thinking
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)
_MARKER = re.compile(
    r"(?:(?:^|(?<=[.!?:;] ))[ \t>*#_]*|\b(?:so|thus|hence|therefore|and),? )"
    r"(?:the|my) (?:(?:final|correct|short) )?answer is\s*:?"
    r"|\bso,? (?:final )?answer is\s*:?|\bfinal answer\s*:?"
    r"|\b(?:la respuesta es|die antwort (?:ist|lautet)|la réponse est|la risposta è|答案是)\s*:?"
    r"|(?:^|(?<=[.!?] ))[ \t>*#_]*(?:(?:short )?answer|antwort|respuesta|réponse|risposta|a|答案)"
    r"[ \t]*[*_]*[ \t]*[:：]"
    r"|^[ \t>*#_]*(?:short )?answer[ \t*_]*$",
    re.IGNORECASE | re.MULTILINE,
)
_WRAPPED = re.compile(
    r"<answer>(.*?)(?:</answer>|\Z)|\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", re.DOTALL | re.IGNORECASE
)
_TEX = re.compile(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}")
_TAG = re.compile(r"</?(?:b|i|u|em|strong|p|span|code|br)\s*/?>", re.IGNORECASE)
_YES_NO = re.compile(r"(?i)^\W*(yes|no|true|false)\b")
_LONGEST = 400
"""Characters of a short answer; what is longer is no short answer, and its first sentence shows."""
_ALONE = 4
"""Words of a first line that is an answer by itself."""
_GOES_ON = 3
"""Words behind a first sentence that make it a sentence of its own."""
_WRAPPING = " \t\n*_`\"'“”‘’"


def parse_answer(reply: str, answer_type: AnswerType) -> str:
    r"""Return the answer that `reply` gives, or the literal `Unknown`.

    A reply with reasoning is read behind its last "So the answer is …" or "Answer:", or from its
    last `<answer>…</answer>`, `\boxed{…}` or `{"answer": …}`; without such a mark a short answer
    is the first line that says anything, a long one the whole reply. Code fences, emphasis,
    quotes and a thinking block are dropped. A yes/no reply that is neither counts as unknown.
    """
    text = _TAG.sub("", bare_text(reply))
    wrapped = _wrapped(text)
    said = text if wrapped is None else wrapped
    if answer_type == "long":
        return UNKNOWN if is_unknown(said) else said
    marked = _behind_marker(said)
    answer = _first_line(said) if marked is None else _first_sentence(_first_line(marked))
    if is_unknown(answer) or (marked is None and not _stands_alone(answer) and is_unknown(said)):
        return UNKNOWN
    return _yes_or_no(answer) if answer_type == "yes_no" else _shown(answer)


def _stands_alone(line: str) -> bool:
    """Say whether a first line is an answer by itself, whatever pleasantry follows it."""
    return len(line.split()) <= _ALONE and not line.endswith((":", "…", ","))


def _shown(answer: str) -> str:
    """Return a short answer that fits a screen: the whole reply stands in the candidate."""
    if len(answer) <= _LONGEST:
        return answer
    first = split_sentences(answer)[0].text
    return first if len(first) <= _LONGEST else first[: _LONGEST - 1] + "…"


def _first_sentence(line: str) -> str:
    """Cut what a reply goes on to say behind the answer; "Dr. No" goes on by a word only."""
    sentences = split_sentences(line)
    if len(sentences) < 2 or len(line[sentences[0].end :].split()) < _GOES_ON:
        return line
    return _without_full_stop(sentences[0].text).strip(_WRAPPING)


def bare_text(reply: str) -> str:
    """Return `reply` without thinking blocks and code fences.

    A thinking block may lack its first mark: chat templates often write that themselves.
    """
    return _FENCE.sub("", without_thinking(reply)).strip()


def cut_off(message: BaseMessage | None) -> bool:
    """Say whether the provider reports that a reply ended at its length limit."""
    told = message.response_metadata if message is not None else {}
    reasons = (told.get(name) for name in ("finish_reason", "stop_reason", "done_reason"))
    return any(str(reason).lower() in ("length", "max_tokens") for reason in reasons)


def _wrapped(text: str) -> str | None:
    if text.startswith("{"):
        with suppress(ValueError):
            return _field(json.loads(text))
    found = [match.group(match.lastindex or 0) for match in _WRAPPED.finditer(text)]
    return _TEX.sub(r"\1", found[-1]).strip() if found else None


def _field(value: object) -> str | None:
    """Return the `answer` of a JSON reply."""
    answer = value.get("answer") if isinstance(value, dict) else None
    return str(answer).strip() if isinstance(answer, str | int | float) else None


def _behind_marker(text: str) -> str | None:
    ends = [match.end() for match in _MARKER.finditer(text)]
    for end in reversed(ends):
        if text[end:].strip(_WRAPPING + ".:"):
            return text[end:]
    return None


def _first_line(text: str) -> str:
    for line in text.splitlines():
        bare = line.strip(_WRAPPING)
        if bare.strip(".:-—"):
            return _without_full_stop(bare).strip(_WRAPPING)
    return ""


def _without_full_stop(line: str) -> str:
    inner = line[:-1]
    if line.endswith("。"):
        return inner
    if line.endswith(".") and not re.search(r"(?:^|[\s.])[^\W\d_]$", inner):
        return inner
    return line


def _yes_or_no(answer: str) -> str:
    match = _YES_NO.match(answer)
    if match is None:
        return UNKNOWN
    return "Yes" if match.group(1).lower() in ("yes", "true") else "No"
