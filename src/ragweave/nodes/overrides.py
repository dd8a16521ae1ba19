"""A caller's prompts in the place of a method's own."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.prompts import (
    BaseChatPromptTemplate,
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    StringPromptTemplate,
)
from langchain_core.prompts.message import BaseMessagePromptTemplate

from ragweave.errors import UsageError
from ragweave.nodes.ask import Templates
from ragweave.registry import closest

_ABOUT_FORM = frozenset(
    {
        "answer_form",
        "conclusion",
        "examples",
        "otherwise",
        "unknown",
        "count",
        "count_form",
        "last",
        "topic",
    }
)
"""Variables that shape a reply; a prompt of the caller's may do without them."""


def with_overrides(
    own: Templates, overrides: Mapping[str, ChatPromptTemplate | str] | None
) -> dict[str, ChatPromptTemplate]:
    """Return `own` with some templates replaced by name.

    Args:
        own: The method's templates.
        overrides: Replacements; a text, or a template of one, stands for a prompt of one human
            message.

    Raises:
        UsageError: A name is not one of the method's, or a replacement is malformed, asks for a
            variable that the original does not have, or leaves out one that carries what the
            prompt is about, such as the question or the passages.
    """
    templates = dict(own)
    for name, given in (overrides or {}).items():
        if name not in own:
            known = ", ".join(sorted(own)) or "none"
            raise UsageError(
                f"unknown prompt {name!r}{closest(name, own)}: this method's prompts are {known}"
            )
        template = _template(name, given)
        usable = _usable(own[name])
        if extra := set(template.input_variables) - usable:
            has = ", ".join(sorted(usable))
            raise UsageError(
                f"prompt {name!r} uses {{{sorted(extra)[0]}}}, but only {has} can be used"
            )
        needed = set(own[name].input_variables) - _ABOUT_FORM
        if lacking := sorted(needed - set(template.input_variables)):
            listed = " and ".join(f"{{{one}}}" for one in lacking)
            raise UsageError(
                f"prompt {name!r} leaves out {listed}: the model would not see what the prompt is "
                "about"
            )
        templates[name] = template
    return templates


def _usable(own: ChatPromptTemplate) -> set[str]:
    """Return the variables that stand for a template: what asks for one form has the other too."""
    named = set(own.input_variables)
    return named | {"answer_form"} if "conclusion" in named else named


def _template(name: str, given: object) -> ChatPromptTemplate:
    """Return the template that a replacement stands for."""
    if isinstance(given, ChatPromptTemplate):
        return given
    if isinstance(given, StringPromptTemplate):
        return ChatPromptTemplate([HumanMessagePromptTemplate(prompt=given)])
    if isinstance(given, BaseMessagePromptTemplate | BaseChatPromptTemplate):
        return ChatPromptTemplate([given])
    if not isinstance(given, str):
        raise UsageError(
            f"prompt {name!r} must be a ChatPromptTemplate or a string, not {type(given).__name__}"
        )
    try:
        return ChatPromptTemplate.from_template(given)
    except ValueError as error:
        raise UsageError(f"prompt {name!r}: {error} (write {{{{ and }}}} for braces)") from error
