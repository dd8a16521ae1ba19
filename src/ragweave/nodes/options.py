"""The options of every method; a method's own class adds to them.

The class is the graph's `context_schema`, so that a run may override any of them:
`graph.invoke({"question": …}, context={"k": 8})`. What a run leaves out is as built.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from ragweave.errors import UsageError, did_you_mean
from ragweave.nodes.papers import SETTINGS, Paper
from ragweave.state import AnswerType
from ragweave.tools.models.budget import Limits

Order = Literal["retrieved", "reversed", "gold_first", "gold_last"]

_SAMPLING = {"samples", "sample_temperature", "top_p"}
"""Whoever sets one of these decides how answers are sampled: the paper's others are left out."""


class Options(BaseModel):
    """The options of every method."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    own_paper: ClassVar[Paper | Literal[""]] = ""
    """The paper that `profile="paper"` stands for; "" if none of its prompts are at hand."""
    paper_settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By paper: the values that it fixes for this method alone; those for all methods are in `SETTINGS`."""
    built_with: ClassVar[frozenset[str]] = frozenset()
    """The names of the options that the build was given."""

    k: int = Field(5, ge=1, description="Passages per query (Liu et al. 2024, section 4.1).")
    answer_type: AnswerType = Field("short", description="The kind of answer, if the input does not say.")
    profile: Literal["ours", "strategyqa", "paper"] | Paper = Field(
        "ours",
        description="Prompts and settings: ours; ours for StrategyQA's yes/no questions; those of the method's own "
        "paper; or a named paper's, for the rows of its tables.",
    )
    unknown: bool = Field(True, description="Whether answer prompts ask the model to say Unknown if it does not know.")
    samples: int = Field(1, ge=1, description="Samples of each answer (Liu et al. 2024, section 4.4).")
    sample_temperature: float | None = Field(
        None, ge=0, le=2, description="Temperature of answers; none: 0.7 for several samples, else the model's."
    )
    top_p: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Nucleus sampling of answers (BlendFilter, section 4.7); 0 is greedy; none: the model's.",
    )
    order: Order = Field(
        "retrieved",
        description="Order of passages in the prompt; gold_first, gold_last: where those marked `gold` stand (Liu et "
        "al. 2024, section 4.5).",
    )
    prompt_tokens: int | None = Field(None, ge=1, description="Maximum tokens of a prompt; none: the model's context.")
    reply_tokens: int = Field(
        512,
        ge=1,
        description="Maximum tokens of a reply. The default does not apply to reasoning models or to steps that need more.",
    )
    constrain: bool = Field(True, description="Whether verdicts, ids and steps are constrained to a JSON schema.")
    ask_again: bool = Field(
        True, description="Whether to ask once more, for the answer alone, if the reasoning reaches none."
    )
    citations: bool = Field(False, description="Whether the output cites the sentences that support the answer.")
    sufficient_context: Literal["printed"] | bool = Field(
        False,
        description="Whether passages are rated before each answer, which is Unknown if they are not sufficient "
        "(Joren et al. 2025); `printed` asks in that paper's words (appendix C.1).",
    )
    max_calls: int | None = Field(None, ge=1, description="Maximum model calls of a run; none: no limit.")
    max_total_tokens: int | None = Field(
        None, ge=1, description="Tokens, read and written, after which a run makes no further call; none: no limit."
    )
    max_cost_usd: float | None = Field(
        None, gt=0, description="US dollars after which a run makes no further call; none: no limit."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a run may take; none: no limit.")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return what the caller chose.

        Studio sends every field of its form: there a value that equals the default was not chosen.
        """
        fields = cls.model_fields
        for name in given.keys() - fields.keys():
            raise ValueError(f"no option {name!r}: {did_you_mean(name, fields)}")
        if given.keys() >= fields.keys():
            return {name: value for name, value in given.items() if _as_tuple(value) != _as_tuple(fields[name].default)}
        return given

    @model_validator(mode="after")
    def _with_derived(self) -> Self:
        """Set the defaults that follow from other options, unless the caller chose otherwise."""
        chosen = self.model_fields_set | self.built_with
        if chosen & _SAMPLING:
            chosen = chosen | _SAMPLING
        for name, value in self.derived().items():
            if name in type(self).model_fields and name not in chosen:
                object.__setattr__(self, name, value)  # the options are frozen
                self.model_fields_set.add(name)
        return self

    def derived(self) -> dict[str, Any]:
        """Return the defaults that follow from other options, by name: the paper's. A method may add its own."""
        return {**SETTINGS.get(self.paper, {}), **self.paper_settings.get(self.paper, {})}

    @property
    def paper(self) -> str:
        """The paper whose wording and settings hold; "" if they are ours."""
        if self.profile == "paper":
            return self.own_paper
        return "" if self.profile in ("ours", "strategyqa") else self.profile

    def is_set(self, name: str) -> bool:
        """Return whether the caller set an option, or it was derived, as from a paper's profile."""
        return name in self.model_fields_set | self.built_with

    @property
    def limits(self) -> Limits:
        """What a run may spend."""
        return Limits(**{field.name: getattr(self, field.name) for field in fields(Limits)})

    @property
    def default_answer_type(self) -> AnswerType:
        """The answer type of an input that names none."""
        return "yes_no" if self.profile == "strategyqa" else self.answer_type

    @property
    def sampling(self) -> dict[str, float]:
        """The sampling settings of answer calls."""
        if self.top_p == 0:  # no server takes a nucleus of 0
            return {"temperature": 0.0}
        temperature = self.sample_temperature
        if temperature is None and self.top_p is not None:
            temperature = 1.0
        elif temperature is None and self.samples > 1:
            temperature = 0.7
        chosen = {"temperature": temperature, "top_p": self.top_p}
        return {name: value for name, value in chosen.items() if value is not None}


OptionsT = TypeVar("OptionsT", bound=Options)


def with_defaults(options: type[OptionsT], given: Mapping[str, Any]) -> type[OptionsT]:
    """Return a subclass of options whose defaults are what the build was given.

    LangGraph makes a run's options from the run's `context` alone; with these defaults, what a run
    leaves out is as built.
    """
    built, fields = make_options(options, given), options.model_fields
    own: Any = {
        name: (fields[name].rebuild_annotation(), Field(getattr(built, name), description=fields[name].description))
        for name in given
    }
    subclass: type[OptionsT] = create_model(options.__name__, __base__=options, __doc__=options.__doc__, **own)
    subclass.built_with = frozenset(given)
    return subclass


def make_options(options: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """Make options.

    Raises:
        UsageError: There is no such option, or a value is out of its range; the text names it.
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"the context must be a mapping of options, not {type(given).__name__}")
    try:
        return options(**given)
    except ValidationError as error:
        faults = "; ".join(
            ": ".join(filter(None, [".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")]))
            for fault in error.errors()
        )
        raise UsageError(faults) from error


def _as_tuple(value: Any) -> Any:
    """Return a list as a tuple: JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value
