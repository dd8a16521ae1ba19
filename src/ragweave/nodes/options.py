"""Options that every method shares, and how a run's overrides meet the build's values.

Values are checked against the type hints of their fields.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import os
import textwrap
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Any,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from langgraph.runtime import Runtime, get_runtime

from ragweave.errors import UsageError
from ragweave.nodes.profile import Paper, Profile, settings_of
from ragweave.state import AnswerType

_WANTED: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


def typed(name: str, value: Any, hint: Any) -> Any:
    """Return an option's value as its hint has it: a path as text, a list as the tuple it stands for.

    Booleans are no numbers and numbers no booleans; a whole number will do for a number. Hints are
    `bool`, `int`, `float`, `str`, `Literal`, `X | None`, `X | Y` and `tuple[X, ...]`.

    Raises:
        UsageError: The value is of another kind; the text names the option.
    """
    if get_origin(hint) in (Union, UnionType):
        return _optional(name, value, hint)
    if get_origin(hint) is tuple:
        return _several(name, value, get_args(hint)[0])
    if hint is str and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not _fits(value, hint):
        raise UsageError(f"{name} must be {_wanted(hint)}, not {value!r}")
    return value


def is_known_hint(hint: Any) -> bool:
    """Say whether `typed` knows a type hint."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return is_known_hint(kinds[0]) if len(kinds) == 1 else all(map(_is_plain, kinds))
    if get_origin(hint) is tuple:
        kinds = list(get_args(hint))
        return kinds[1:] == [...] and _is_plain(kinds[0])
    return _is_plain(hint)


def _is_plain(hint: Any) -> bool:
    return get_origin(hint) is Literal or hint in _WANTED


def _optional(name: str, value: Any, hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if value is None and len(kinds) < len(get_args(hint)):
        return None
    if len(kinds) == 1:
        return typed(name, value, kinds[0])
    if not any(_fits(value, kind) for kind in kinds):
        wanted = [_wanted(kind).removeprefix("one of ") for kind in kinds]
        raise UsageError(f"{name} must be {', '.join(wanted[:-1])} or {wanted[-1]}, not {value!r}")
    return value


def _takes(hint: Any, value: Any) -> bool:
    """Say whether an option of this hint can have `value`."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return any(_fits(value, kind) for kind in kinds if kind is not NoneType)


def _several(name: str, value: Any, kind: Any) -> tuple[Any, ...]:
    parts = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not parts or not all(_fits(part, kind) for part in parts):
        raise UsageError(f"{name} must be a list: some of {_listed(kind)}, not {value!r}")
    return parts


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return any(type(one) is type(value) and one == value for one in get_args(kind))
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and not math.isnan(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _wanted(kind: Any) -> str:
    return f"one of {_listed(kind)}" if get_origin(kind) is Literal else _WANTED[kind]


def _listed(kind: Any) -> str:
    return ", ".join(map(str, get_args(kind))) or _WANTED[kind]


Order = Literal["retrieved", "reversed", "gold_first", "gold_last"]
"""Order of passages in a prompt; the gold orders move passages with `metadata["gold"]`."""


_SAMPLES_TEMPERATURE = 0.7


class _Named:
    """Base of dataclasses that name their fields where they are given another."""

    stands_for_build = False
    """Whether the class stands for a build's values: its defaults are theirs."""
    given_at_build = frozenset[str]()
    """The options that the build was given, then."""

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that the caller set; a paper's profile leaves them alone."""
        names: frozenset[str] = self.__dict__["given_names"]
        return names

    def __new__(cls, *_: Any, **values: Any) -> Self:
        """Refuse names that are no options: a run's context reaches this class unchecked.

        Raises:
            UsageError: There is no such option.
        """
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in values:
            if name not in known:
                raise UsageError(f"no option {name!r}; options: {', '.join(known)}")
        made = super().__new__(cls)
        object.__setattr__(made, "given_names", cls._given_names(values))
        return made

    @classmethod
    def _given_names(cls, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of the options that were set, by the build or by these values.

        The agent server and Studio send back every option of a build's form: there, one that
        stands as the form showed it is not set.
        """
        if not cls.stands_for_build:
            return frozenset(values)
        shown = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        is_form = values.keys() >= {field.name for field in dataclasses.fields(Options)}
        return cls.given_at_build | {
            name
            for name, value in values.items()
            if not is_form or (tuple(value) if isinstance(value, list) else value) != shown[name]
        }


@dataclass(frozen=True, kw_only=True)
class Options(_Named):
    """What a caller may set for any method; a method's own options add to these."""

    k: int = 5
    """Passages per query (Liu et al. 2024, section 4.1; BlendFilter, section 4.1)."""
    answer_type: AnswerType = "short"
    """The kind of answer wanted, where the input does not say."""
    wording: Literal["method", "phrase", "many"] = "method"
    """What short answers are asked to look like: as the method's own prompt says, or for all
    methods alike, the shortest phrase, or as many answers as are possible (SlimPLM, table 9)."""
    profile: Profile = "ours"
    """Whose prompts and settings: ours; ours in the form for StrategyQA's Yes/No questions; those
    that the method's own paper prints (`paper`), or a named paper's for the rows of its tables. A
    paper's settings (k, shots, the clause on Unknown, sampling, nothing asked again) hold where
    they are not set."""
    unknown: Literal["method"] | bool = "method"
    """Whether prompts ask to say Unknown where the answer is not known: as the method's own
    prompts do, or all of them, or none."""
    samples: int = 1
    """Self-consistency samples p of each answer call (Liu et al. 2024, section 4.4)."""
    sample_temperature: float | None = None
    """Temperature of the answer calls; None: 0.7 where `samples` > 1 (Liu et al. 2024, section
    4.4), else 1 where `top_p` is set and the model is at 0, else what the model is set to."""
    top_p: float | None = None
    """Nucleus of the answer calls (BlendFilter, section 4.7); 0 is greedy; None: the model's."""
    order: Order = "retrieved"
    """Order of passages in the prompt (Liu et al. 2024, section 4.5)."""
    prompt_tokens: int | None = None
    """Most tokens of a prompt; None: the model's context less `reply_tokens`, where known."""
    reply_tokens: int = 512
    """Most tokens of a reply, below which a step may have a limit of its own; also kept free where
    the model's context bounds the prompt. Unless it is set, a step that needs more takes it: notes
    on many passages, a printed rating."""
    constrain: Literal["auto"] | bool = "auto"
    """Whether ids, verdicts and Yes or No are held to their form by a grammar or a JSON schema, and
    the steps of ReAct and Self-Ask and rewrites by a grammar, without a thinking block, then; auto
    and true: wherever the model offers that."""
    ask_again: bool = True
    """Whether a reply that is no answer (an echo of its prompt, a reasoning without its end) is
    asked again, once, in short form; an answer may then cost a second call."""
    citations: bool = False
    """Whether the output says which sentences of the passages support which part of the answer."""
    sufficient_context: Literal["printed"] | bool = False
    """Whether the passages are rated before each answer, and the answer is Unknown where they hold
    too little for one (Joren et al. 2025); a call more for each. `printed` asks in that paper's
    words (appendix C.1), by a long reply of 1,024 tokens at most; one that ends before its label,
    as where `reply_tokens` is set too low for it, rates nothing."""
    timeout: float | None = None
    """Seconds that a whole run may take; None: no limit."""

    @property
    def own_paper(self) -> Paper | Literal[""]:
        """The paper that `profile="paper"` stands for; "" where none of its prompts stands here.

        `profile="paper"` is ours, then. A method whose own paper's prompts do names it.
        """
        return ""

    @property
    def paper(self) -> Paper | Literal[""]:
        """The paper whose wording and settings hold; "" where they are ours."""
        profile = self.profile
        if profile == "ours" or profile == "strategyqa":
            return ""
        return self.own_paper if profile == "paper" else profile

    @property
    def default_answer_type(self) -> AnswerType:
        """The answer type of an input that names none: Yes or No under the StrategyQA profile."""
        return "yes_no" if self.profile == "strategyqa" else self.answer_type

    def search_depth(self, _state: Mapping[str, Any]) -> int:
        """Return how many passages the question's own search asked for, by a run's final state."""
        return self.k

    @property
    def given_depth(self) -> int:
        """How many of a question's own passages a run hands over in the place of a search."""
        return self.k

    def __post_init__(self) -> None:
        """Set what the profile settles and check the values: first their types, then ranges.

        A subclass calls this first, so that its own checks never meet a value of the wrong type.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        self._settle()
        for name in ("k", "samples", "reply_tokens", "prompt_tokens"):
            at_least(name, getattr(self, name), 1)
        if self.timeout is not None and self.timeout <= 0:
            raise UsageError(f"timeout must be above 0 seconds, not {self.timeout!r}")
        for name, most in (("sample_temperature", 2), ("top_p", 1)):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= most:
                raise UsageError(f"{name} must be between 0 and {most}, not {value!r}")

    def _settle(self) -> None:
        """Check the values' types, and take a paper's settings where the caller set none."""
        hints = _hints(cast("Hashable", type(self)))
        names = [field.name for field in dataclasses.fields(self)]
        for name in names:
            object.__setattr__(self, name, typed(name, getattr(self, name), hints[name]))
        object.__setattr__(self, "as_given", tuple(getattr(self, name) for name in names))
        settled = settings_of(self.paper, self.given) if self.paper else {}
        for name in settled.keys() & set(names):
            if _takes(hints[name], settled[name]):
                object.__setattr__(self, name, settled[name])

    @property
    def settled(self) -> frozenset[str]:
        """The names of the options that a paper's profile settles."""
        return frozenset(settings_of(self.paper, self.given)) if self.paper else frozenset()

    @property
    def paper_sampling(self) -> dict[str, float]:
        """What every call is told of sampling by a paper's profile, unless the caller chose."""
        warm = self.sample_temperature
        if warm is None or "sample_temperature" not in self.settled:
            return {}
        return {"temperature": warm}

    @property
    def nucleus(self) -> dict[str, float]:
        """What every call of the answering model is told of sampling, where it was asked for."""
        return {} if self.top_p is None else self.sampling

    @property
    def sampling(self) -> dict[str, float]:
        """The sampling settings of answer calls; no server takes a nucleus of 0."""
        if self.top_p == 0:
            return {"temperature": 0.0}
        warm = self.sample_temperature
        if warm is None and self.samples > 1:
            warm = _SAMPLES_TEMPERATURE
        chosen = {"temperature": warm, "top_p": self.top_p}
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class FusionOptions(Options):
    """Options of a method of Liu et al. 2024 (Post-fusion as Fallback)."""

    @property
    def own_paper(self) -> Paper:
        """Liu et al. 2024."""
        return "post_fusion"


def at_least(name: str, value: int | None, least: int) -> None:
    """Raise `UsageError` unless `value` is None or a whole number of at least `least`."""
    if value is None:
        return
    if type(value) is not int or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}")


@functools.lru_cache(maxsize=256)
def _hints(kind: type[Options]) -> Mapping[str, Any]:
    """Return the types of a class's options: evaluating them anew costs more than the checks."""
    return MappingProxyType(get_type_hints(kind))


OptionsT = TypeVar("OptionsT", bound=Options)


def specialised(options: OptionsT) -> type[OptionsT]:
    """Return a subclass of the options' class whose defaults are the values of `options`.

    LangGraph turns a partial override (`context={"k": 8}`) into the context schema with that
    schema's defaults for the rest, and the agent server fills in its defaults too. With the
    build's values as the defaults, both mean: the build, but for what was overridden. They are the
    values before a paper's profile settled the rest, which it does anew for each run.
    """
    values: tuple[Hashable, ...] = options.__dict__["as_given"]
    return _specialised(cast("Hashable", type(options)), options.given, *values)


@functools.lru_cache(maxsize=256, typed=True)
def _specialised(kind: type[Any], given: frozenset[str], *values: Hashable) -> type[Any]:
    hints = _hints(cast("Hashable", kind))
    fields = [
        (field.name, hints[field.name], dataclasses.field(default=value))
        for field, value in zip(dataclasses.fields(kind), values, strict=True)
    ]
    return dataclasses.make_dataclass(
        kind.__name__,
        fields,
        bases=(kind,),
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": kind.__doc__,
            "__module__": kind.__module__,
            "stands_for_build": True,
            "given_at_build": given,
        },
    )


def current(build: OptionsT) -> OptionsT:
    """Return the options in force: the run's context where it is of the build's kind.

    The agent server also routes outside of a run, when a state is edited: there is no runtime then.
    """
    runtime: Runtime[Any] | None = get_runtime()
    context = runtime.context if runtime is not None else None
    return context if isinstance(context, type(build)) else build


def field_texts(options: type[Any]) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, inherited ones included."""
    texts: dict[str, str] = {}
    for kind in reversed(options.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for node, below in itertools.pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[node.target.id] = " ".join(str(below.value.value).split())
    return texts
