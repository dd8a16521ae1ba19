"""Reading an answer off a model's reply: forgiving in form, inventing nothing."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Literal, NamedTuple

from ragweave.nodes.conclusion import (
    CONCLUDES,
    answers_behind,
    behind_marker,
    without_open_end,
    without_source,
)
from ragweave.nodes.reply_framing import before_another_question, without_opening
from ragweave.nodes.reply_lists import listed
from ragweave.nodes.reply_sources import is_about_source, without_attribution
from ragweave.nodes.yes_no import (
    begins_with_verdict,
    last_verdict,
    reasoned_verdict,
    says_so,
    verdict,
)
from ragweave.state import AnswerType
from ragweave.tools.text.markup import (
    EMPHASIS,
    as_written,
    is_sign,
    trimmed,
    with_marked_emphasis,
    without_backticks,
    without_tags,
)
from ragweave.tools.text.reply import (
    NO_PARTS,
    EchoKind,
    PromptParts,
    asks_yes_or_no,
    bounded,
    echo_of,
    restates,
    without_thinking,
)
from ragweave.tools.text.sentences import ends_in_title, split_sentences
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

Rejected = EchoKind | Literal["no_conclusion"]
"""Why what a reply says is no answer: an echo of the prompt, or reasoning that arrives nowhere."""


class ReadAnswer(NamedTuple):
    """What a reply answers."""

    answer: str
    """The answer, or the literal `Unknown`."""
    rejected: Rejected = ""
    """Why the answer is Unknown although the reply did not say so."""


_FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)
_WRAPPED = re.compile(
    r"<answer>(.*?)(?:</answer>|\Z)|\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", re.DOTALL | re.IGNORECASE
)
_OBJECT = re.compile(r"^(?:[ \t]*+`{3}\w*+)?+[ \t]*+\{", re.MULTILINE)
_OBJECTS = 20
"""Places that are tried for a JSON object: each may be looked through to the reply's end."""
_JSON = json.JSONDecoder()
_DELIMITERS = re.compile(r"</?\s?passage\b[^>\n]{0,400}>?", re.IGNORECASE)
_RULES_OUT = re.compile(
    r"\W*(?:(?:the )?(?:first|second|third|other|remaining) )?(?:passages?|documents?|knowledge)"
    r"(?: \d{1,3})?\b|\W*useful information\b|\W*(?:neither|none|both) of the passages\b",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(r"(?:this|that|it) is (?:because|since|as|why)\b|because\b", re.IGNORECASE)
"""How a sentence begins that gives the reason of the one before."""
_HOW_MANY = re.compile(r"\bhow (?:many|much)\b", re.IGNORECASE)
_RUNS = re.compile("|".join(f"{sign}+" for sign in EMPHASIS))
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_NAME = re.compile(
    r"(?!(?:the|this|that|these|it|he|she|they|in|on|at|as|so|however|therefore|thus|since|based|we"
    r"|i|to|if|a|an|first|next|finally|let|hope|thanks?|done|end|see|step|source|passage|document"
    r"|knowledge|confidence|notes?|references?|conclusion|summary|explanation|reasoning|question"
    r"|answer|both|neither|none|sources|passages|documents|evidence|wikipedia|correct|incorrect"
    r"|verified|true|false|yes|no|user|human|assistant|key|result|final|also|additionally|moreover"
    r"|furthermore|option)\b)(?-i:[A-Z\d][^\s:]*)"
    r"(?: (?:of|the|and|de|da|di|du|von|van|der|la|le|el|al|bin|(?-i:[A-Z\d][^\s:]*)))*",
    re.IGNORECASE,
)
"""A paragraph that is a name or a number; another one may be a heading, or cut off."""
_TEX = re.compile(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}")
_LONGEST = 400
"""Most characters of a short answer; of a longer one the first sentence is shown."""
_ALONE = 4
"""Words of a first line that is an answer by itself."""
_GOES_ON = 3
"""Words behind a first sentence that make it a sentence of its own."""
_LOOKED_AT = 2000
"""Characters of a line in which sentences are looked for."""
_SAY_NOTHING = f" \t\n*_`\"'“”‘’.:-—{EMPHASIS}"


def parse_answer(reply: str, answer_type: AnswerType) -> str:
    r"""Return the answer that `reply` gives, or the literal `Unknown`.

    A reply with reasoning is read behind its last "So the answer is …" or "Answer:", or from its
    last `<answer>…</answer>`, `\boxed{…}` or `{"answer": …}`; without such a mark a short answer
    is the first line that says anything, or a list of names, and a long one the whole reply. What
    opens the reply ("Based on the passages:"), code fences, emphasis, quotes, a thinking block,
    where the answer was found ("This is stated in passage 2.") and another question with its answer
    are dropped. A yes/no reply is read by its first words, else by its last sentence; one that says
    neither, or that "there is not enough information", counts as unknown, and so does a delimiter
    or a placeholder of the prompt. Of a long reply only `MAX_REPLY` characters are read.
    """
    return read_answer(reply, answer_type).answer


def read_answer(
    reply: str,
    answer_type: AnswerType,
    parts: PromptParts = NO_PARTS,
    *,
    reasons: bool = False,
) -> ReadAnswer:
    """Return the answer as `parse_answer` reads it; or Unknown, and why, where it is none.

    Args:
        reply: The model's reply, of any text.
        answer_type: The kind of answer asked for.
        parts: What the prompt said: an echo of it is no answer.
        reasons: Whether the reply was to reason first and then to conclude. A reasoning without
            its "So the answer is …" is then no answer, but for a single sentence, a first line of
            a few words, a last paragraph that is a name or a number, and a last sentence that
            begins with "So" or the like.
    """
    text = before_another_question(
        bare_text(reply), parts.question, answer_type=answer_type, reasons=reasons
    )
    wrapped = _wrapped(text, all_of_it=answer_type == "long")
    said = without_tags(text if wrapped is None else wrapped)
    if answer_type == "long":
        return _unless_echo(said, UNKNOWN if _says_unknown(said) else said, parts)
    said = without_source(with_marked_emphasis(said))
    if said and not (said := without_open_end(said)):
        return ReadAnswer(UNKNOWN, "no_conclusion")
    marked = behind_marker(said)
    if marked is None:
        concludes = reasons and wrapped is None
        return _read_unmarked(said, answer_type, parts, reasons=reasons, concludes=concludes)
    answer = _with_whole_emphasis(_plain_answer(_first_line(marked), marked=True))
    if _says_unknown(answer):
        return ReadAnswer(UNKNOWN)
    return _unless_echo(answer, _as_asked(answer, said, answer_type, parts), parts)


def _read_unmarked(
    said: str, answer_type: AnswerType, parts: PromptParts, *, reasons: bool, concludes: bool
) -> ReadAnswer:
    """Read a reply without a mark: its first line that says anything, or its conclusion."""
    whole = said
    items = "" if reasons or _HOW_MANY.search(parts.question) else listed(said)
    said = without_opening(said, parts.question, reasons=reasons)
    if concludes:
        concluded = _concluded(said, answer_type)
        if concluded is None:
            return ReadAnswer(UNKNOWN, "" if _refuses(said) else "no_conclusion")
        whole = said = concluded
    first = _first_line(said)
    answer = _with_whole_emphasis(_plain_answer(first, marked=False))
    declines = not _stands_alone(answer) and any(map(_refuses, {said, whole}))
    if declines or _says_unknown(answer):
        return ReadAnswer(UNKNOWN, echo_of(as_written(first)))
    return _unless_echo(answer, _as_asked(answer, said, answer_type, parts, items), parts)


def _as_asked(
    answer: str, said: str, answer_type: AnswerType, parts: PromptParts, items: str = ""
) -> str:
    """Return the Yes or No that was asked for, a list's items, or an answer that fits a screen."""
    if answer_type == "yes_no":
        return verdict(answer) if begins_with_verdict(answer) else last_verdict(said)
    if asks_yes_or_no(parts.question) and says_so(answer):
        return reasoned_verdict(answer)
    return items or _shown(without_backticks(answer))


def concluding(reply: str, question: str = "") -> str | None:
    """Return all that a reasoning concludes with, which may be several answers; None without it."""
    text = before_another_question(bare_text(reply), question, reasons=True)
    wrapped = _wrapped(text)
    text = without_source(with_marked_emphasis(text if wrapped is None else wrapped))
    said = answers_behind(text)
    if said is None and wrapped is None:
        return None
    said = text if said is None else said
    bare = trimmed(said)
    return as_written(bare if "\n" in bare else trimmed(_without_full_stop(bare)))


def only_states(reply: str, answer_type: AnswerType) -> bool:
    """Return whether a reply that was to conclude states facts, in sentences, and concludes nothing.

    That is neither one without a word nor a refusal, and neither an answer of a few words nor the
    Yes or No that `answer_type` asks for.
    """
    text = bare_text(reply)
    first = _first_line(without_opening(text, "", reasons=True))
    told = answer_type == "yes_no" and begins_with_verdict(first)
    stated = bool(first) and not told and not _stands_alone(first)
    return stated and concluding(reply) is None and not _refuses(text)


def _refuses(said: str) -> bool:
    return is_unknown(as_written(said), one_answer=True)


def _says_unknown(answer: str) -> bool:
    return is_unknown(answer) and not is_sign(without_backticks(answer))


def _unless_echo(said: str, answer: str, parts: PromptParts) -> ReadAnswer:
    if answer == UNKNOWN:
        return ReadAnswer(UNKNOWN)
    kind = echo_of(said, parts) or ("question" if restates(answer, parts.question) else "")
    return ReadAnswer(UNKNOWN, kind) if kind else ReadAnswer(answer)


def _plain_answer(line: str, *, marked: bool) -> str:
    """Return a line's answer, without its delimiters and where it was found."""
    inner = trimmed(_DELIMITERS.sub(" ", line))
    if inner != line and len(inner.split()) > 0:
        line = _without_full_stop(inner)
    about_source = not marked and is_about_source(_second_sentence(line))
    cut = _first_sentence(line) if marked or about_source else line
    return trimmed(_without_full_stop(trimmed(without_attribution(cut))))


def _concluded(said: str, answer_type: AnswerType) -> str | None:
    """Return where a reasoning without a mark arrives; None where it arrives nowhere."""
    first = _first_line(said)
    sentences = split_sentences(said[-_LOOKED_AT:])
    if _stands_alone(first) or (answer_type == "yes_no" and begins_with_verdict(first)):
        return said
    told = last_verdict(said) if answer_type == "yes_no" else _last_paragraph(said)
    if told not in ("", UNKNOWN) and not _refuses(said):
        return told
    if len(sentences) > 1:
        last = sentences[-1].text
        lead = CONCLUDES.match(last)
        if len(sentences) == 2 and _EXPLAINS.match(last) and not _RULES_OUT.match(first):
            return sentences[0].text
        return last[lead.end() :] if lead else None
    announces = trimmed(said).endswith((":", "…"))
    return None if announces or _RULES_OUT.match(first) else said


def _last_paragraph(said: str) -> str:
    """Return the name or number that is the last paragraph of a reasoning, else ""."""
    *before, last = _PARAGRAPH.split(said.strip())
    lead = CONCLUDES.match(last)
    bare = trimmed(_without_full_stop(trimmed(last[lead.end() if lead else 0 :])))
    named = _NAME.fullmatch(bare) or (lead is not None and not _RULES_OUT.match(bare))
    return bare if before and named and _stands_alone(bare) else ""


def _stands_alone(line: str) -> bool:
    """Say whether a first line is an answer by itself, whatever pleasantry follows it."""
    return len(line.split()) <= _ALONE and not line.endswith((":", "…", ","))


def _shown(answer: str) -> str:
    """Return a short answer that fits a screen: the whole reply stands in the candidate."""
    if len(answer) <= _LONGEST:
        return answer
    first = _without_full_stop(split_sentences(answer[: _LONGEST + 1])[0].text)
    return first if len(first) <= _LONGEST else first[: _LONGEST - 1] + "…"


def _first_sentence(line: str) -> str:
    """Cut what a reply goes on to say behind the answer; "Dr. No" goes on by a word only."""
    sentences = split_sentences(line[:_LOOKED_AT])
    ends = (one.end for one in sentences if not ends_in_title(line[: one.end], line[one.end :]))
    end = next(ends, len(line))
    if len(line[end:].split()) < _GOES_ON:
        return line
    return trimmed(_without_full_stop(line[:end]))


def _second_sentence(line: str) -> str:
    sentences = split_sentences(line[:_LOOKED_AT])
    return sentences[1].text if len(sentences) > 1 else ""


def bare_text(reply: str) -> str:
    """Return `reply`, bounded, without thinking blocks and code fences.

    A thinking block may lack its first mark: chat templates often write that themselves.
    """
    return _FENCE.sub("", without_thinking(bounded(reply))).strip()


def _wrapped(text: str, *, all_of_it: bool = False) -> str | None:
    r"""Return the answer in a reply's last JSON object with one, `<answer>…` or `\boxed{…}`.

    Args:
        text: The reply.
        all_of_it: Whether the whole reply may be the answer: an object further on is a part of it.
    """
    found = list(_WRAPPED.finditer(text))
    answer, end = _in_json(text, 1 if all_of_it else _OBJECTS)
    later = bool(found) and found[-1].start() >= end
    if answer is not None and not later and behind_marker(text[end:]) is None:
        return answer
    if not found:
        return None
    return _TEX.sub(r"\1", found[-1].group(found[-1].lastindex or 0)).strip()


def _in_json(text: str, most: int) -> tuple[str | None, int]:
    """Return the answer of the last JSON object that has one, and where that object ends.

    Args:
        text: The reply.
        most: How many places are tried for the beginning of an object, the last ones of the reply;
            1: the reply's beginning alone.
    """
    places = [one.end() - 1 for one in _OBJECT.finditer(text)][-most:] if most > 1 else [0]
    answer: str | None = None
    last = end = 0
    for place in places:
        if place < end or not text.startswith("{", place):
            continue
        with suppress(ValueError, RecursionError):
            value, end = _JSON.raw_decode(text, place)
            if (given := _field(value)) is not None:
                answer, last = given, end
    return answer, last


def _field(value: object) -> str | None:
    """Return the `answer` of a JSON reply: a text, a number, a list of them, or null for none."""
    fields = (
        {str(key).casefold(): one for key, one in value.items()} if isinstance(value, dict) else {}
    )
    if "answer" not in fields:
        return None
    answer = fields["answer"]
    listed = [one for one in (answer if isinstance(answer, list) else [answer]) if one is not None]
    if not all(isinstance(one, str | int | float) for one in listed):
        return None
    return ", ".join(str(one).strip() for one in listed) or UNKNOWN


def _first_line(text: str) -> str:
    lines = [trimmed(line) for line in text.splitlines()]
    says = (line for line in lines if line.strip(_SAY_NOTHING))
    signs = (line for line in lines if is_sign(without_backticks(line)))
    line = next(says, "") or next(signs, "")
    return trimmed(_without_full_stop(line))


def _with_whole_emphasis(line: str) -> str:
    """Return a piece with its emphasis as it was written, but where half of a pair was cut off."""
    runs = [*_RUNS.finditer(line)]
    pairs = zip(runs[::2], runs[1::2], strict=False)
    whole = len(runs) % 2 == 0 and all(
        begin[0] == end[0] and line[begin.end() : begin.end() + 1].strip() for begin, end in pairs
    )
    return as_written(line) if whole else _RUNS.sub("", line)


def _without_full_stop(line: str) -> str:
    inner = line[:-1]
    if line.endswith("。"):
        return inner
    if line.endswith(".") and not re.search(r"(?:^|[\s.])[^\W\d_]$", inner):
        return inner
    return line
