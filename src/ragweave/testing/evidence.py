"""Which passages an answer was read from, told from the prompts alone.

A passage stands in a prompt where one of its sentences does. A prompt also rests on what the
replies that it quotes were read from: an intermediate answer, a reasoning, the part of an answer
that stands already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.testing.scripted import ModelCall
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_QUOTED = 3
"""Words from which on a sentence of a reply counts as quoted where a later prompt has it."""


def winners(output: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the candidates of the latest round that gave the output's answer."""
    candidates = list(output["candidates"].values())
    latest = max((one["round"] for one in candidates), default=0)
    answer = _key(output["answer"])
    return [one for one in candidates if one["round"] == latest and _key(one["answer"]) == answer]


def _key(answer: str) -> str:
    return UNKNOWN if is_unknown(answer) else normalize_answer(answer) or answer


def calls_behind(won: Sequence[Mapping[str, Any]], calls: Sequence[ModelCall]) -> list[ModelCall]:
    """Return the calls whose replies the winning candidates are: the last ones with those replies.

    A candidate whose text is put together from several replies is that of its node's last call.
    """
    found: list[ModelCall] = []
    by_place: dict[tuple[str, str], int] = {}
    for one in won:
        place = (one["pool"], one["reply"])
        by_place[place] = by_place.get(place, 0) + 1
    for (pool, reply), count in by_place.items():
        of_node = [call for call in calls if call.node == pool]
        same = [call for call in of_node if call.reply.strip() == reply]
        found += (same or of_node)[-count:]
    return found


def shown(
    call: ModelCall, calls: Sequence[ModelCall], documents: Iterable[Document]
) -> list[Document]:
    """Return the passages that stand in a call's prompt, in their order there.

    What the prompt quotes of earlier replies doesn't count.
    """
    text = call.text
    for reply in {one.reply for one in calls if len(one.reply.split()) >= _QUOTED}:
        text = text.replace(reply, " ")
    text = folded(text)
    places = {id(doc): _place(doc, text) for doc in documents}
    there = [doc for doc in documents if places[id(doc)] is not None]
    return sorted(there, key=lambda doc: places[id(doc)] or 0)


def _place(document: Document, text: str) -> int | None:
    places = [text.find(one) for one in sentences(document.page_content)]
    return min((at for at in places if at >= 0), default=None)


def rests_on(call: ModelCall, calls: Sequence[ModelCall]) -> list[ModelCall]:
    """Return the earlier calls whose replies a call's prompt quotes, directly or through others.

    A sentence that several nodes' replies have tells nothing.
    """
    nodes: dict[str, set[str]] = {}
    for one in calls:
        for sentence in _telling(one.reply):
            nodes.setdefault(sentence, set()).add(one.node)
    found: list[ModelCall] = []
    open_calls = [call]
    while open_calls:
        text = folded(open_calls.pop().text)
        for one in calls:
            quoted = [
                said for said in _telling(one.reply) if len(nodes[said]) == 1 and said in text
            ]
            if quoted and one is not call and one not in found:
                found.append(one)
                open_calls.append(one)
    return found


def _telling(reply: str) -> list[str]:
    return [one for one in sentences(reply) if len(one.split()) >= _QUOTED and not is_unknown(one)]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, white space folded."""
    return [folded(one.text) for one in split_sentences(text)]


def folded(text: str) -> str:
    """Return `text` with each run of white space as one blank."""
    return " ".join(text.split())


def misread(
    output: Mapping[str, Any], calls: Sequence[ModelCall], documents: Sequence[Document]
) -> str:
    """Say how an output's passages differ from what its answer was read from; "": they don't.

    They are the passages in the prompts of the winning candidates, in prompt order where there is
    one such prompt. Where those prompts rest on earlier replies, what these were read from may
    count too; where they show no passage themselves, it must.
    """
    behind = calls_behind(winners(output), calls)
    direct = _ids(doc for call in behind for doc in shown(call, calls, documents))
    earlier = [one for call in behind for one in rests_on(call, calls)]
    indirect = _ids(doc for call in earlier for doc in shown(call, calls, documents))
    told = [str(doc.id) for doc in output["passages"]]
    everything = set(direct) | set(indirect)
    allowed = [set(direct), everything] if direct else [everything]
    if set(told) not in allowed:
        return f"the passages are {told}, and the final prompts showed {direct or indirect}"
    if len(told) != len(set(told)):
        return f"the passages repeat: {told}"
    if len(behind) == 1 and not earlier and told != direct:
        return f"the passages are in the order {told}, and the prompt's order is {direct}"
    return _altered(output["passages"], [*behind, *earlier])


def _altered(passages: Iterable[Document], calls: Sequence[ModelCall]) -> str:
    texts = [folded(call.text) for call in calls]
    for doc in passages:
        if not any(folded(doc.page_content) in text for text in texts):
            return f"the text of passage {doc.id} is not what a prompt showed: {doc.page_content!r}"
    return ""


def _ids(documents: Iterable[Document]) -> list[str]:
    return list(dict.fromkeys(str(doc.id) for doc in documents))
