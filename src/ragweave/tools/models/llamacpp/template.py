"""A model's chat template: from messages to the prompt that the model was trained on."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ragweave.errors import ModelError

_MAX_RANGE = 10_000
_MAX_OUTPUT = 1 << 24
_OPEN, _CLOSE = "\ue000", "\ue001"

Message = Mapping[str, str]
Fragment = tuple[str, bool]
"""Text, and whether control tokens in it are meant (True) or come from outside (False)."""


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that also refuses to build giant texts or to count far."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(v) if isinstance(v, str | list | tuple) else v for v in (left, right)]
        if operator == "**" or all(isinstance(v, int) for v in sizes):
            large = any(isinstance(v, int) and abs(v) > _MAX_RANGE for v in sizes)
            if large or (operator == "**" and abs(right) > 64):
                raise SecurityError(f"{operator} on values that large")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """Renders messages with a Jinja template in a sandbox.

    The template comes with a downloaded file and the messages hold text from outside: neither is
    trusted. The template sees no Python attribute that could lead out, and what it may count or
    write is bounded; control tokens spelled out in a message stay plain text.
    """

    def __init__(self, source: str, control_texts: Sequence[str] = (), **names: str) -> None:
        """Compile a template.

        Args:
            source: The Jinja text.
            control_texts: Names of the model's control tokens.
            names: Texts that the template may use, such as `bos_token` and `eos_token`.

        Raises:
            ModelError: The text is no valid Jinja.
        """
        self._names = names
        # Longest first, so that a name which begins with another is found whole.
        guarded = sorted({*control_texts, _OPEN, _CLOSE}, key=len, reverse=True)
        self._guarded = re.compile("|".join(map(re.escape, guarded)))
        self._template = _compile(source)

    def __deepcopy__(self, memo: dict[int, Any]) -> ChatTemplate:
        """Return itself: it never changes, and a compiled template can't be copied."""
        return self

    def render(self, messages: Sequence[Message]) -> list[Fragment]:
        """Return the prompt in fragments; joined, they are the whole text.

        Raises:
            ModelError: The template refuses the messages or tries what the sandbox forbids.
        """
        taken: list[str] = []

        def guard(match: re.Match[str]) -> str:
            taken.append(match.group())
            return f"{_OPEN}{len(taken) - 1}{_CLOSE}"

        safe = [
            {**message, "content": self._guarded.sub(guard, message["content"])}
            for message in messages
        ]
        rendered = self._render(safe)
        if not taken:
            return [(rendered, True)]
        parts = re.split(f"{_OPEN}([0-9]+){_CLOSE}", rendered)
        return [
            (taken[int(part)], False) if i % 2 else (part, True)
            for i, part in enumerate(parts)
            if part
        ]

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            return self._run(messages)
        except TemplateError as error:
            if isinstance(error, SecurityError) or messages[0]["role"] != "system":
                raise _refused(error) from error
            merged = _without_system(messages)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise _refused(error) from error
        except (RecursionError, MemoryError) as error:
            raise _refused(error) from error
        try:
            return self._run(merged)
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise _refused(error) from error

    def _run(self, messages: list[dict[str, str]]) -> str:
        budget = itertools.count()
        pieces = self._template.generate(
            messages=messages,
            add_generation_prompt=True,
            tools=None,
            range=_bounded_range(budget),
            **self._names,
        )
        out: list[str] = []
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > _MAX_OUTPUT:
                raise SecurityError(f"more than {_MAX_OUTPUT} characters of output")
            out.append(piece)
        return "".join(out)


def _compile(source: str) -> Template:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise, strftime_now=_now)
    try:
        return environment.from_string(source)
    except (TemplateError, RecursionError, SyntaxError) as error:
        raise ModelError(f"the chat template is not valid Jinja: {_line(error)}") from error


def _bounded_range(budget: Iterator[int]) -> Callable[..., Iterator[int]]:
    """Return a `range` whose steps, all loops together, are bounded."""

    def bounded(*bounds: int) -> Iterator[int]:
        for value in range(*bounds):
            if next(budget) >= _MAX_RANGE:
                raise SecurityError(f"more than {_MAX_RANGE} steps of range()")
            yield value

    return bounded


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Move the system text to the front of the next message: some templates know no system."""
    system, *rest = messages
    if not rest:
        return [{**system, "role": "user"}]
    first = {**rest[0], "content": f"{system['content']}\n\n{rest[0]['content']}"}
    return [first, *rest[1:]]


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _now(pattern: str) -> str:
    return datetime.now(UTC).strftime(pattern)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _refused(error: BaseException) -> ModelError:
    return ModelError(f"the chat template failed: {_line(error)}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
