"""Replies as objects: a JSON schema held to by a grammar, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel

from ragweave.errors import UsageError

METHODS = ("json_schema", "function_calling", "json_mode")


def structured(
    model: BaseChatModel,
    schema: dict[str, Any] | type,
    method: str,
    *,
    include_raw: bool,
    options: Mapping[str, Any],
) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
    """Return `model`, bound to `options` and held to `schema`, whichever method is named.

    Raises:
        UsageError: The method is not known.
    """
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    plain = convert_to_json_schema(schema)
    held = model.bind(
        json_schema=plain,
        ls_structured_output_format={"kwargs": {"method": method}, "schema": plain},
        **options,
    )
    parser: BaseOutputParser[Any] = JsonOutputParser()
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        parser = PydanticOutputParser(pydantic_object=schema)
    if not include_raw:
        return held | parser
    read = RunnablePassthrough.assign(
        parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
    )
    unread = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=held) | read.with_fallbacks([unread], exception_key="parsing_error")
