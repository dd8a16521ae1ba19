"""Reading an answer off a model's reply: forgiving in form, inventing nothing."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal, NamedTuple

from ragweave.nodes.conclusion import (
    answers_behind,
    behind_marker,
    without_open_end,
    without_source,
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
from ragweave.tools.text.sentences import split_sentences
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
_ATTRIBUTED = re.compile(
    r"(?:,? ?[(\[]|, )(?:(?:as )?(?:stated|mentioned|given|said|found|written|described)"
    r" (?:in|by)|(?:see|source:?|from|according to|based on)) ?(?:the )?"
    r"(?:passage|context|text|document|article|knowledge)s?[ \d,and]{0,20}[)\]]?\.?\Z"
    r"| ?[(\[](?:passage|document|knowledge)s? ?[\d, and]{1,20}[)\]]\.?\Z"
    r"| ?[(\[](?:my )?final answer[)\]]\.?\Z",
    re.IGNORECASE,
)
_BY_SOURCE = re.compile(
    r"(?:according to|based on|as stated in|from|in) (?:the )?"
    r"(?:information (?:provided|given|contained|found) (?:in|by) (?:the )?)?"
    r"(?:(?:given|provided|above|first|second|third) )?"
    r"(?:passage|context|text|document|article|knowledge|information|reference)s?(?: \d{1,3})?"
    r"(?: provided| given| above)?, ?(?=\S)",
    re.IGNORECASE,
)
_ABOUT_SOURCE = re.compile(
    r"(?:this|that|it|the answer|as|see|source|the information|both|all)\b.{0,60}?\b(?:stated|mentioned"
    r"|found|given|said|based|according|supported|comes?|described|written|passages?|context|text)\b",
    re.IGNORECASE,
)
_RULES_OUT = re.compile(
    r"\W*(?:(?:the )?(?:first|second|third|other|remaining) )?(?:passages?|documents?|knowledge)"
    r"(?: \d{1,3})?\b|\W*useful information\b|\W*(?:neither|none|both) of the passages\b",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"(?:so|therefore|thus|hence|in conclusion|overall|consequently|in short)\b,? ?", re.IGNORECASE
)
_EXPLAINS = re.compile(r"(?:this|that|it) is (?:because|since|as|why)\b|because\b", re.IGNORECASE)
"""How a sentence begins that gives the reason of the one before."""
_ANNOUNCES = re.compile(
    r"\A(?!\W*(?:yes|no|true|false)\b)(?![^:]*\b(?:reason|step|fact|source|passage)s?\b)[^.;:]*"
    r"\b(?:includ(?:ing|es?|ed)|were|was|are|is|as follows|following(?: \w+){0,3}|such as|these"
    r"|answers?):\Z",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"\A\W*here(?: is|['’]s) (?:\w+ ){0,3}answer\b[^\n]{0,60}:[*_ ]*\n+(?=.*\w)", re.IGNORECASE
)
_NO_MORE = re.compile(r"\b(?:other|others|more|else|further)\b", re.IGNORECASE)
"""A caveat behind a list: that there may be others."""
_HOW_MANY = re.compile(r"\bhow (?:many|much)\b", re.IGNORECASE)
_ITEM = re.compile(r"(?:\d{1,2}[.)]|[-•*])[ \t]+(\S.*)\Z")
_EXPLAINED = re.compile(r":\s|\s[–—-]\s")
_EXPLAINS_FROM = 6
"""Words behind a colon that explain an item; fewer may be a part of its name."""
_TEX = re.compile(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}")
_YES_NO = re.compile(r"(?i)^[\W_]*(yes|no|true|false)(?![^\W_])")
_SAYS_SO = re.compile(r"(?i)(?:yes|no)(?:[,;:!]|\.(?! ?\d)|$| ?[-–—])")
"""A reply to a question that asks for Yes or No; what follows is the reason."""
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
    is the first line that says anything, a long one the whole reply. Code fences, emphasis,
    quotes, a thinking block and where the answer was found ("This is stated in passage 2.") are
    dropped. A yes/no reply that is neither counts as unknown, and so does a delimiter or a
    placeholder of the prompt. Of a long reply only `MAX_REPLY` characters are read.
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
            a few words, and a last sentence that begins with "So" or the like.
    """
    text = bare_text(reply)
    wrapped = _wrapped(text, all_of_it=answer_type == "long")
    said = without_tags(text if wrapped is None else wrapped)
    if answer_type == "long":
        return _unless_echo(said, UNKNOWN if _says_unknown(said) else said, parts)
    said = without_source(with_marked_emphasis(said))
    if said and not (said := without_open_end(said)):
        return ReadAnswer(UNKNOWN, "no_conclusion")
    marked = behind_marker(said)
    if marked is None and wrapped is None and reasons:
        concluded = _concluded(said, answer_type)
        if concluded is None:
            return ReadAnswer(UNKNOWN, "" if _refuses(said) else "no_conclusion")
        said = concluded
    answer = as_written(_plain_answer(said, marked))
    declines = marked is None and not _stands_alone(answer) and _refuses(said)
    if declines or _says_unknown(answer):
        return ReadAnswer(UNKNOWN, echo_of(as_written(_first_line(said))) if marked is None else "")
    if answer_type == "yes_no":
        return _unless_echo(answer, _yes_or_no(answer), parts)
    takes_list = marked is None and not reasons and not _HOW_MANY.search(parts.question)
    listed = _listed(said) if takes_list else ""
    shown = _verdict(answer, parts.question) or listed or _shown(without_backticks(answer))
    return _unless_echo(answer, shown, parts)


def concluding(reply: str) -> str | None:
    """Return all that a reasoning concludes with, which may be several answers; None without it."""
    text = bare_text(reply)
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
    first = _first_line(text)
    told = answer_type == "yes_no" and _YES_NO.match(first)
    stated = bool(first) and not told and not _stands_alone(first)
    return stated and concluding(reply) is None and not _refuses(text)


def _refuses(said: str) -> bool:
    return is_unknown(as_written(said), one_answer=True)


def _says_unknown(answer: str) -> bool:
    return is_unknown(answer) and not is_sign(without_backticks(answer))


def _verdict(answer: str, question: str) -> str:
    """Return Yes, No or Unknown where a question for Yes or No is answered so; "" elsewhere."""
    said_so = _SAYS_SO.match(answer) if asks_yes_or_no(question) else None
    if said_so is None:
        return ""
    told = trimmed(answer[said_so.end() :])
    return UNKNOWN if told and is_unknown(told) else _yes_or_no(answer)


def _unless_echo(said: str, answer: str, parts: PromptParts) -> ReadAnswer:
    if answer == UNKNOWN:
        return ReadAnswer(UNKNOWN)
    kind = echo_of(said, parts) or ("question" if restates(answer, parts.question) else "")
    return ReadAnswer(UNKNOWN, kind) if kind else ReadAnswer(answer)


def _plain_answer(said: str, marked: str | None) -> str:
    """Return the first line's answer, without its delimiters and where it was found."""
    line = _first_line(said if marked is None else marked)
    inner = trimmed(_DELIMITERS.sub(" ", line))
    if inner != line and len(inner.split()) > 0:
        line = _without_full_stop(inner)
    cut = _first_sentence(line) if marked is not None else _before_source(line)
    bare = _ATTRIBUTED.sub("", _BY_SOURCE.sub("", cut[:_LOOKED_AT], count=1) + cut[_LOOKED_AT:])
    return trimmed(_without_full_stop(trimmed(bare)))


def _concluded(said: str, answer_type: AnswerType) -> str | None:
    """Return where a reasoning without a mark arrives; None where it arrives nowhere."""
    first = _first_line(said)
    sentences = split_sentences(said[-_LOOKED_AT:])
    if _stands_alone(first) or (answer_type == "yes_no" and _YES_NO.match(first)):
        return said
    if len(sentences) > 1:
        last = sentences[-1].text
        lead = _CONCLUDES.match(last)
        if len(sentences) == 2 and _EXPLAINS.match(last) and not _RULES_OUT.match(first):
            return sentences[0].text
        return last[lead.end() :] if lead else None
    announces = trimmed(said).endswith((":", "…"))
    return None if announces or _RULES_OUT.match(first) else said


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
    if len(sentences) < 2 or len(line[sentences[0].end :].split()) < _GOES_ON:
        return line
    return trimmed(_without_full_stop(sentences[0].text))


def _before_source(line: str) -> str:
    """Cut a second sentence that says only where the answer of the first one stands."""
    sentences = split_sentences(line[:_LOOKED_AT])
    if len(sentences) < 2 or not _ABOUT_SOURCE.match(sentences[1].text):
        return line
    return _first_sentence(line)


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
    lines = [trimmed(line) for line in _HERE.sub("", text, count=1).splitlines()]
    says = (line for line in lines if line.strip(_SAY_NOTHING))
    signs = (line for line in lines if is_sign(without_backticks(line)))
    line = next(says, "") or next(signs, "")
    return trimmed(_without_full_stop(line))


def _listed(said: str) -> str:
    """Return the items of a list that is the whole answer, joined by commas; "" of any other text.

    It stands behind a line that announces it ("They were:"), one item a line, and nothing that
    concludes follows; Unknown where what follows declines.
    """
    announced, *lines = [line for line in said.splitlines() if line.strip()] or [""]
    items = items_of(lines)
    rest = "\n".join(lines[len(items) :])
    if len(items) < 2 or _CONCLUDES.search(rest) or not _ANNOUNCES.search(trimmed(announced)):
        return ""
    if rest and is_unknown(rest) and not _NO_MORE.search(rest):
        return UNKNOWN
    return ", ".join(map(_head, items))


def items_of(lines: Iterable[str]) -> list[str]:
    """Return the items of the list that `lines` begin with, without their numbers or bullets."""
    found = itertools.takewhile(bool, map(_ITEM.match, lines))
    return [one[1] for one in found if one]


def _head(item: str) -> str:
    """Return what a list's item names, without what is said of it behind a colon or a dash."""
    bare = item.translate(dict.fromkeys(map(ord, EMPHASIS)))
    named, *told = _EXPLAINED.split(bare, maxsplit=1)
    explained = bool(told) and len(told[0].split()) >= _EXPLAINS_FROM
    head = trimmed(trimmed(named if explained else bare).strip(".,;: "))
    return without_backticks(head)


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
