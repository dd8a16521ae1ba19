"""A model's chat template: from messages to the prompt that the model was trained on."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from ragweave.errors import UnusableModelError

PLAIN = "{% for message in messages %}{{ message.content }}\n\n{% endfor %}"
"""For models without a template: the messages' texts, for the model to continue."""

_MAX_RANGE = 10_000
_MAX_STEPS = 50_000
_MAX_TEXT = 1 << 23
_MAX_ITEMS = 1 << 20
_SECONDS = 5.0
_OPEN, _CLOSE = "\ue000", "\ue001"
_FILTERS = frozenset(
    [
        "abs",
        "capitalize",
        "count",
        "d",
        "default",
        "dictsort",
        "e",
        "escape",
        "first",
        "float",
        "groupby",
        "indent",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "safe",
        "select",
        "selectattr",
        "sort",
        "string",
        "title",
        "tojson",
        "trim",
        "truncate",
        "unique",
        "upper",
        "wordcount",
    ]
)
"""Filters that templates may use; the others can build values of any size."""

Message = Mapping[str, str]
Fragment = tuple[str, bool]
"""Text, and whether control tokens in it count as such (True) or are untrusted (False)."""


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}`: transformers' mark of the model's own words.

    It says what to train on; to render, what stands in it is all that matters.
    https://huggingface.co/docs/transformers/chat_templating_writing
    """

    tags: set[str] = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's body, in a scope of its own as in transformers."""
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=lineno)


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that also bounds how long a template runs and what it builds.

    Each loop's sequence, each text joined by `~` and each call goes through a check that is
    inserted into the template's syntax tree.
    """

    intercepted_binops = frozenset(["*", "**", "%", "+"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self.budget = _Budget()
        self.filters = {name: one for name, one in self.filters.items() if name in _FILTERS}
        self.filters.update(tojson=_to_json, replace=_replaced, indent=_indented, join=_joined)
        self.filters.update(checked_=_checked, counted_=self._counted)
        self.globals = {"namespace": self.globals["namespace"]}
        self.globals.update(raise_exception=_raise, strftime_now=_now, range=self._range)

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join what a block or a whole template wrote."""
        return _joined(parts)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [_size(left), _size(right)]
        if operator == "**" and (sizes[0] > _MAX_RANGE or sizes[1] > 64):
            raise SecurityError("** on values that large")
        if operator == "*" and (min(sizes) > _MAX_RANGE or sizes[0] * sizes[1] > _MAX_TEXT):
            raise SecurityError("* on values that large")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting by %")
        if operator == "+" and not isinstance(left, int) and sum(sizes) > _MAX_TEXT:
            raise SecurityError("+ on values that large")
        return super().call_binop(context, operator, left, right)

    def call(self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        self.budget.step()
        name = getattr(__obj, "__name__", "")
        owner = getattr(__obj, "__self__", None)
        if name in _FORMATTING:
            raise SecurityError(f"{name}() of a text")
        if isinstance(owner, str):
            if name in _WIDENING or any(isinstance(one, int) and one > 64 for one in args):
                raise SecurityError(f"{name}() of a text")
            if name == "replace":
                return _replaced(owner, *args, **kwargs)
            if name == "join":
                return _joined(args[0] if args else (), owner)
        return _checked(super().call(__context, __obj, *args, **kwargs))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Insert the checks into the tree."""
        tree: nodes.Template = super()._parse(source, name, filename)
        _Checks().visit(tree)
        return tree

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yield a loop's values as long as the budget lasts."""
        for value in values:
            self.budget.step()
            yield value

    def _range(self, *bounds: int) -> Iterator[int]:
        """A `range` whose steps, all together, are bounded."""
        for value in range(*bounds):
            self.budget.count()
            yield value


_FORMATTING = {"format", "format_map"}
_WIDENING = {"center", "ljust", "rjust", "zfill", "expandtabs"}


class _Checks(NodeTransformer):
    """Wraps the sequences of loops, and texts joined by `~` two at a time, in checks."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        if node.recursive:
            raise SecurityError("recursive loops")
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "counted_")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        head, *rest = node.nodes
        for part in rest:
            head = _filtered(nodes.Concat([head, part], lineno=node.lineno), "checked_")
        return head


class _Budget:
    """What one rendering may spend."""

    def __init__(self) -> None:
        self.refill()

    def refill(self) -> None:
        """Start a new rendering."""
        self._steps = itertools.count()
        self._numbers = itertools.count()
        self._until = time.monotonic() + _SECONDS

    def step(self) -> None:
        """Take one step of a loop, or one call."""
        if next(self._steps) >= _MAX_STEPS or time.monotonic() > self._until:
            raise SecurityError("it runs too long")

    def count(self) -> None:
        """Take one number of a `range`."""
        if next(self._numbers) >= _MAX_RANGE:
            raise SecurityError(f"more than {_MAX_RANGE} steps of range()")


class ChatTemplate:
    """Renders messages with a Jinja template in a sandbox.

    The template comes with a downloaded file and the messages contain untrusted text: neither is
    trusted. The template sees no Python attribute through which it could escape, its steps and
    its output are bounded, and control tokens spelled out in a message stay plain text.
    """

    def __init__(self, source: str, control_texts: Sequence[str] = (), **names: str) -> None:
        """Compile a template.

        Args:
            source: The Jinja text.
            control_texts: Names of the model's control tokens.
            names: Texts that the template may use, such as `bos_token` and `eos_token`.

        Raises:
            UnusableModelError: The text is not valid Jinja.
        """
        self._names = names
        # Longest first, so that a name which begins with another is found whole.
        guarded = sorted({*control_texts, _OPEN, _CLOSE}, key=len, reverse=True)
        self._guarded = re.compile("|".join(map(re.escape, guarded)))
        self._source = source
        self._ready = [self._compiled()]

    def __deepcopy__(self, memo: dict[int, Any]) -> ChatTemplate:
        """Return itself: it never changes, and a compiled template can't be copied."""
        return self

    def render(
        self, messages: Sequence[Message], values: Mapping[str, Any] | None = None
    ) -> list[Fragment]:
        """Return the prompt in fragments; joined, they are the whole text.

        Args:
            messages: At least one message.
            values: Further variables of the template, such as `enable_thinking`.

        Raises:
            UnusableModelError: The template rejects the messages, or does something that the
                sandbox forbids.
        """
        taken: list[str] = []

        def guard(match: re.Match[str]) -> str:
            taken.append(match.group())
            return f"{_OPEN}{len(taken) - 1}{_CLOSE}"

        safe = [
            {**message, "content": self._guarded.sub(guard, message["content"])}
            for message in messages
        ]
        rendered = self._render(safe, dict(values or {}))
        if not taken:
            return [(rendered, True)]
        parts = re.split(f"{_OPEN}([0-9]+){_CLOSE}", rendered)
        return [
            (taken[int(part)], False) if i % 2 else (part, True)
            for i, part in enumerate(parts)
            if part
        ]

    def _render(self, messages: list[dict[str, str]], values: dict[str, Any]) -> str:
        """Render; where that fails, try again without a system message."""
        first: Exception | None = None
        for attempt in (messages, _without_system(messages)):
            try:
                return self._run(attempt, values)
            except SecurityError as error:
                raise _refused(error) from error
            except (RecursionError, MemoryError) as error:
                raise _refused(error) from error
            except _FAILURES as error:
                first = first or error
            if messages[0]["role"] != "system" or not isinstance(first, TemplateError):
                break
        if first is None:
            raise AssertionError("a template neither rendered nor failed")
        raise _refused(first, tools="tools" in self._source) from first

    def _run(self, messages: list[dict[str, str]], values: dict[str, Any]) -> str:
        given = {"messages": messages, "add_generation_prompt": True, "tools": None}
        # Each environment counts the budget of one rendering, and threads render at once.
        try:
            environment, template = self._ready.pop()
        except IndexError:
            environment, template = self._compiled()
        environment.budget.refill()
        text = _joined(template.generate(**{**self._names, **values, **given}))
        self._ready.append((environment, template))
        return text

    def _compiled(self) -> tuple[_Environment, Template]:
        """Compile the template in an environment of its own."""
        environment = _Environment()
        try:
            return environment, environment.from_string(self._source)
        except (TemplateError, RecursionError, SyntaxError, MemoryError) as error:
            raise UnusableModelError(
                f"the chat template is not valid Jinja: {_line(error)}"
            ) from error


_FAILURES = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _size(value: Any) -> int:
    if isinstance(value, str | list | tuple):
        return len(value)
    return abs(int(value)) if isinstance(value, int | float) and abs(value) < 1e300 else 0


def _checked(value: Any) -> Any:
    """Return a value if it is not too large.

    Raises:
        SecurityError: It is too large.
    """
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        raise SecurityError(f"more than {_MAX_TEXT} characters of text")
    if isinstance(value, list | tuple) and len(value) > _MAX_ITEMS:
        raise SecurityError(f"more than {_MAX_ITEMS} items in a list")
    return value


def _joined(parts: Iterable[Any], between: Any = "", attribute: Any = None) -> str:
    """Join texts, up to the length limit."""
    if attribute is not None:
        raise SecurityError("join by attribute")
    out: list[str] = []
    size = 0
    for part in parts:
        out.append(str(part))
        size += len(out[-1]) + len(str(between))
        if size > _MAX_TEXT:
            raise SecurityError(f"more than {_MAX_TEXT} characters of output")
    return str(between).join(out)


def _replaced(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    """Replace, up to the length limit."""
    whole, old, new = str(text), str(old), str(new)
    if len(whole) + whole.count(old) * len(new) > _MAX_TEXT:
        raise SecurityError(f"more than {_MAX_TEXT} characters of text")
    return whole.replace(old, new, -1 if count is None else count)


def _indented(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Indent lines as Jinja's own filter does, by at most 64 characters."""
    before = " " * min(width, 64) if isinstance(width, int) else str(width)[:64]
    lines = str(text).split("\n")
    if len(lines) * len(before) > _MAX_TEXT:
        raise SecurityError(f"more than {_MAX_TEXT} characters of text")
    return "\n".join(
        before + line if (first or index) and (line or blank) else line
        for index, line in enumerate(lines)
    )


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Move the system text to the front of the next message: some templates have no system role."""
    system, *rest = messages
    if not rest:
        return [{**system, "role": "user"}]
    first = {**rest[0], "content": f"{system['content']}\n\n{rest[0]['content']}"}
    return [first, *rest[1:]]


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=None if indent is None else min(indent, 8))


def _now(pattern: str) -> str:
    return datetime.now(UTC).strftime(pattern[:200])


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _refused(error: BaseException, *, tools: bool = False) -> UnusableModelError:
    hint = " (it may expect tools, which ragweave does not pass; use another by chat_template=…)"
    return UnusableModelError(f"the chat template failed: {_line(error)}{hint if tools else ''}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
