"""Forms: the structure of a reply. Models that support JSON schemas are constrained to it; other models' text is parsed."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from langchain_core.decisions import Choice, Noul, NoulAnswer
from langchain_core.documents import Document
from pydantic import BaseModel, ConfigDict, Field, create_model

from ragweave.nodes import read
from ragweave.state import UNKNOWN


class Form(BaseModel):
    """The structure of a reply."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)
    bounded: ClassVar[bool] = True
    """Whether the schema limits lengths, which some servers refuse."""
    decides: ClassVar[Noul | Choice | None] = None
    """What a decision model is asked in the place of the prompt. Yes fills in the first word of the form's only field,
    no the second; a choice fills in its label. None: the step needs a chat model."""

    @classmethod
    def model_json_schema(cls, *args: Any, **settings: Any) -> dict[str, Any]:
        """Return the schema without `default`, which strict modes refuse."""
        dropped = {"default"} if cls.bounded else {"default", "maxLength", "maxItems"}
        schema: dict[str, Any] = _without(super().model_json_schema(*args, **settings), dropped)
        return schema

    @classmethod
    def unbounded(cls) -> type[Self] | None:
        """Return the form without length limits; None if it has none."""
        loose = create_model(cls.__name__, __base__=cls, __doc__=cls.__doc__)
        loose.bounded = False
        return loose if loose.model_json_schema() != cls.model_json_schema() else None

    @classmethod
    def from_answer(cls, answer: Any, threshold: float) -> Self:
        """Fill in a decision model's answer; it is yes above the threshold."""
        ((name, field),) = cls.model_fields.items()
        if isinstance(answer, NoulAnswer):
            return cls.model_construct(**{name: get_args(field.annotation)[answer.noul <= threshold]})
        return cls.model_construct(**{name: answer.choice})

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Read the JSON in a text; None if there is none of this form."""
        try:
            return cls.model_validate_json(text[text.index("{") : text.rindex("}") + 1])
        except ValueError:
            return None

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read JSON, or else a text field by field; None where one can't be read. A form may override this."""
        if read_whole := cls.from_json(text):
            return read_whole
        values = {name: _field(name, field.annotation, text) for name, field in cls.model_fields.items()}
        return None if None in values.values() else cls.model_construct(**values)


def _field(name: str, kind: Any, text: str) -> Any:
    inner = next(iter(get_args(kind)), None)
    if get_origin(kind) is Literal:
        return read.choice(text, *get_args(kind))
    if get_origin(kind) is list and get_origin(inner) is Literal:
        first, *_, last = (*get_args(inner), *get_args(inner))
        return read.ids(text, first, last)
    return read.listed(text) if get_origin(kind) is list else read.phrase(text, name) or None


class YesNo(Form):
    """A verdict."""

    answer: Literal["Yes", "No", "Unknown"]

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read the word, or FEVER's SUPPORTS or REFUTES."""
        verdict = read.answer(text, "yes_no")
        if verdict == UNKNOWN and re.match(r"\W*no\s+\w", text, re.I) and read.is_unknown(text):  # No information …
            return cls.model_validate({"answer": verdict})
        return super().from_text(text) or (cls.model_validate({"answer": verdict}) if verdict != UNKNOWN else None)


class Ids(Form):
    """The numbers of passages. A decision model is asked about each passage by itself."""

    decides = Noul(instructions="Does the passage help to answer the question?")

    ids: list[int]

    def pick(self, passages: Sequence[Document], first: int = 1, max_count: int | None = None) -> list[Document]:
        """Return the passages named, or the first `max_count` of them, in their order; they are numbered from `first`."""
        places = sorted(number - first for number in [*dict.fromkeys(self.ids)][:max_count])
        return [passages[at] for at in places if 0 <= at < len(passages)]


@cache
def ids_form(first: int, last: int) -> type[Ids]:
    """Return the form of a reply that names numbers from `first` to `last`, or none."""
    number: Any = Literal[tuple(range(first, last + 1))]
    return create_model("Ids", __base__=Ids, ids=(list[number], limited_list(last + 1 - first)))


def limited(max_length: int, description: str | None = None, default: Any = ...) -> Any:
    """Return a text field whose length the schema limits: small models run on. A longer text is not an error."""
    return Field(default, description=description, json_schema_extra={"maxLength": max_length})


def limited_list(max_items: int) -> Any:
    """Return a list field whose length the schema limits. A longer list is not an error."""
    return Field(json_schema_extra={"maxItems": max_items})


def _without(schema: Any, dropped: set[str]) -> Any:
    if isinstance(schema, dict):
        return {name: _without(value, dropped) for name, value in schema.items() if name not in dropped}
    return [_without(item, dropped) for item in schema] if isinstance(schema, list) else schema
