"""The options of one call, from a model's fields and what the call overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.models.llamacpp.generation import Request
from ragweave.tools.models.llamacpp.grammar import schema_grammar
from ragweave.tools.models.llamacpp.prompt import Overflow
from ragweave.tools.models.llamacpp.sampling import Sampling

SAMPLING = (
    *("temperature", "top_p", "top_k", "seed", "min_p"),
    *("presence_penalty", "repetition_penalty"),
)
"""Options that decide how a token is drawn."""

_PASSED_ON = frozenset({"ls_structured_output_format", "stream", "stream_usage"})
"""What LangChain adds for its own use."""


@dataclass(frozen=True)
class Options:
    """Everything that a call decides, beside its messages."""

    request: Request
    overflow: Overflow
    timeout: float | None
    thinking: bool = False
    """Whether the model may think before it answers."""
    template_values: Mapping[str, Any] = field(default_factory=dict)
    """What the chat template is told beside the messages."""


def call_options(
    fields: Mapping[str, Any], stop: Sequence[str] | None, overrides: Mapping[str, Any]
) -> Options:
    """Return the options of a call.

    Args:
        fields: The model's settings by name.
        stop: Stop sequences of the call; None takes the model's.
        overrides: Bound or given options; `None` keeps the model's setting.

    Raises:
        UsageError: An option is unknown, out of range, or contradicts another.
    """
    given = {k: v for k, v in overrides.items() if v is not None and k not in _PASSED_ON}
    unknown = given.keys() - fields.keys() - {"json_schema", "response_format"}
    if unknown:
        raise UsageError(f"a llama.cpp model has no option {sorted(unknown)[0]!r}")
    all_of_them = {**fields, **given}
    stops = all_of_them["stop"] if stop is None else stop
    max_tokens, top_logprobs = all_of_them["max_tokens"], all_of_them["top_logprobs"]
    if max_tokens is not None and max_tokens < 1:
        raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
    if top_logprobs < 0:
        raise UsageError(f"top_logprobs must be 0 or more, not {top_logprobs}")
    if all_of_them["overflow"] not in ("error", "drop_start", "drop_middle"):
        raise UsageError(
            f"overflow must be error, drop_start or drop_middle: {all_of_them['overflow']}"
        )
    if all_of_them["thinking_tokens"] < 1:
        raise UsageError(
            f"thinking_tokens must be at least 1, not {all_of_them['thinking_tokens']}"
        )
    request = Request(
        sampling=Sampling(**{name: all_of_them[name] for name in SAMPLING}),
        max_tokens=max_tokens,
        thinking_tokens=all_of_them["thinking_tokens"],
        stops=tuple([stops] if isinstance(stops, str) else stops or ()),
        grammar=_grammar(all_of_them),
        logprobs=all_of_them["logprobs"],
        top_logprobs=top_logprobs,
    )
    # A grammar holds the reply from its first token on, which leaves no room to think.
    thinking = bool(all_of_them["thinking"]) and request.grammar is None
    values = {"enable_thinking": thinking, "thinking": thinking}
    values |= all_of_them["chat_template_kwargs"] or {}
    return Options(request, all_of_them["overflow"], all_of_them["timeout"], thinking, values)


def _grammar(options: Mapping[str, Any]) -> str | None:
    """Return the grammar that a call names, in whichever form."""
    wanted = {
        key: options[key]
        for key in ("grammar", "json_schema", "response_format")
        if options.get(key) is not None
    }
    if len(wanted) > 1:
        raise UsageError(f"give one of {' and '.join(sorted(wanted))}, not both")
    if "json_schema" in wanted:
        return schema_grammar(wanted["json_schema"])
    if "response_format" in wanted:
        return _from_format(wanted["response_format"])
    return wanted.get("grammar")


def _from_format(form: Mapping[str, Any]) -> str | None:
    """Read a `response_format` as OpenAI's API knows it."""
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return schema_grammar({"type": "object"})
    if kind == "json_schema":
        return schema_grammar(form["json_schema"]["schema"])
    raise UsageError(f"response_format type {kind!r} is not known")
