"""How a reply is held: to a form, where the model offers one, and to a length.

A form is a GBNF grammar for a model that takes grammars, else a JSON schema for a server with
structured output. A length is what the step needs: a verdict takes tens of tokens, not a thousand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda

from ragweave.nodes.gbnf import id_list, one_of
from ragweave.nodes.options import Options
from ragweave.nodes.replies import bare_text
from ragweave.nodes.step import Call
from ragweave.nodes.step_grammars import Written
from ragweave.tools.bindings import unbound
from ragweave.tools.models import ChatModel, aoffered_forms, offered_forms, reply_limit
from ragweave.tools.models.roles import limit_name
from ragweave.tools.models.thinking import note_thinking, shows_thoughts, thinking_room
from ragweave.tools.text.reply import cut_off

SHORT_ANSWER_TOKENS = 64
"""A name, a date, a phrase; a model that says a sentence around it is not cut either."""
VERDICT_TOKENS = 32
"""Yes or No, `<Known(True)>`, and a word or two that small models add."""
QUERY_TOKENS = 128
"""A thought and an action, a follow-up question, or one sentence that answers it."""
PASSAGE_TOKENS = 256
"""A short passage, several answers, or a look at some passages one by one."""
REASONING_TOKENS = 384
"""A reasoning of several sentences with its conclusion."""
_SCHEMA_TOKENS = 16
"""What the braces and names of a JSON reply take."""


def id_tokens(documents: Sequence[Document]) -> int:
    """Return the most tokens that a list of these documents' numbers needs."""
    return VERDICT_TOKENS + 4 * len(documents)


class ReplyForm(Protocol):
    """The form of a reply."""

    @property
    def grammar(self) -> str:
        """The GBNF grammar of the reply."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of a reply `{"reply": …}`; empty: there is none."""

    def text(self, value: Any) -> str:
        """Return what a JSON reply's value says, as the grammar has it."""


@dataclass(frozen=True)
class Choice:
    """Exactly one of some texts."""

    texts: tuple[str, ...]

    @property
    def grammar(self) -> str:
        """The GBNF grammar of the reply."""
        return one_of(self.texts)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the value."""
        return {"type": "string", "enum": list(self.texts)}

    def text(self, value: Any) -> str:
        """Return the text chosen."""
        return str(value)


@dataclass(frozen=True)
class Numbers:
    """Some of `count` numbers, or none."""

    count: int
    first: int = 0

    @property
    def grammar(self) -> str:
        """The GBNF grammar of the reply."""
        return id_list([str(number) for number in self._numbers])

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the value."""
        return {"type": "array", "items": {"type": "integer", "enum": list(self._numbers)}}

    @property
    def _numbers(self) -> range:
        return range(self.first, self.first + self.count)

    def text(self, value: Any) -> str:
        """Return the numbers separated by commas, each once."""
        named = dict.fromkeys(map(str, value if isinstance(value, list) else [value]))
        return ", ".join(named) or "none"


FormOf = Callable[[Sequence[Document]], ReplyForm]
"""From the passages that stand in a prompt to the form of its reply."""


def form_settings(
    model: ChatModel, form: ReplyForm | None, options: Options
) -> Generator[Call, Any, dict[str, Any]]:
    """Return the form as settings of the call, where it is wanted and the model offers one.

    An OpenAI-compatible server is tried once; neither usage nor callbacks of the run see that.
    """
    if form is None or options.constrain is False:
        return {}
    if getattr(unbound(model), "offers_grammar", False) is True:
        return {"grammar": form.grammar}
    if not form.schema or not _may_offer(model):
        return {}
    ask = RunnableLambda(offered_forms, afunc=aoffered_forms, name="offered_forms")
    if "json_schema" not in (yield Call(ask, model, config={"callbacks": []}, client=model)):
        return {}
    schema = {
        "type": "object",
        "properties": {"reply": form.schema},
        "required": ["reply"],
        "additionalProperties": False,
    }
    named = {"name": "reply", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _may_offer(model: ChatModel) -> bool:
    return any(kind.__name__ == "BaseChatOpenAI" for kind in type(unbound(model)).__mro__)


def held_tokens(
    wanted: int | None, form: ReplyForm | None, settings: Mapping[str, Any]
) -> int | None:
    """Return what a step's reply needs: as many tokens as its grammar lets it write.

    Such a reply ends by its grammar, and one that is cut before is none. A token has a character or
    more, but where a vocabulary lacks a script.

    Args:
        wanted: Most tokens that the step needs where nothing holds it; None: it has no limit.
        form: The form of the reply.
        settings: The settings that hold it (`form_settings`).
    """
    if wanted is None or "grammar" not in settings or not isinstance(form, Written):
        return wanted
    return max(wanted, form.most)


def read_form(text: str, form: ReplyForm | None, settings: Mapping[str, Any]) -> str:
    """Return a reply as the grammar would have it; one that is no such JSON as it stands."""
    if form is None or "response_format" not in settings:
        return text
    try:
        return form.text(json.loads(text)["reply"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


def length_settings(
    model: ChatModel,
    wanted: int | None,
    settings: Mapping[str, Any],
    options: Options,
    left: int | None = None,
) -> dict[str, Any]:
    """Return the longest reply as a setting of the call, by the name that the model knows.

    The lowest of what the step needs, the call's own settings, the option `reply_tokens` and what
    the model was made with counts; the option's default bounds no step that names what it needs.
    A model that counts its thinking gets room for that, as far as its context goes.

    Args:
        model: The model.
        wanted: Most tokens that the step needs; None: no limit of its own.
        settings: The call's settings so far.
        options: The options in force.
        left: Tokens of the model's context behind the prompt; None: not known.
    """
    name = limit_name(unbound(model))
    if name is None:
        return {}
    bounds = wanted is None or "reply_tokens" in options.given
    given = [wanted, settings.get("max_tokens"), options.reply_tokens if bounds else None]
    most = min(one for one in given if isinstance(one, int))
    if "response_format" in settings:
        most += _SCHEMA_TOKENS
    room = thinking_room(model)
    most += room if left is None else min(room, max(0, left - most))
    own = reply_limit(model)
    return {name: most if own is None else min(most, own)}


def was_cut(model: ChatModel, message: BaseMessage, text: str) -> bool:
    """Say whether a reply ended at its limit.

    A model that thought meanwhile gets room for that from its next call on; a client that keeps
    thoughts to itself hands over nothing at all.
    """
    if not cut_off(message):
        return False
    if not bare_text(text) or shows_thoughts(message, text):
        note_thinking(model)
    return True


def before_stops(text: str, stops: Sequence[str]) -> str:
    """Return a reply up to the first stop sequence in it, as a server that knows them ends it."""
    return text[: min((at for one in stops if (at := text.find(one)) >= 0), default=len(text))]
