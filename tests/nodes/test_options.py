"""Options: their range, and how a run's overrides meet the build's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ragweave import METHODS
from ragweave.errors import UsageError
from ragweave.nodes.options import Options, specialised


@dataclass(frozen=True, kw_only=True)
class Special(Options):
    """Options with one more."""

    rounds: int = 3


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, not 0"),
        ({"k": True}, "k must be"),
        ({"k": 2.0}, "k must be"),
        ({"k": "3"}, "k must be"),
        ({"samples": 0}, "samples must be"),
        ({"prompt_tokens": 0}, "prompt_tokens must be"),
        ({"reply_tokens": -1}, "reply_tokens must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": -1.0}, "timeout must be"),
        ({"timeout": "5"}, "timeout must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"sample_temperature": 2.1}, "sample_temperature must be"),
        ({"sample_temperature": "hot"}, "sample_temperature must be"),
        ({"top_p": 1.5}, "top_p must be"),
        ({"order": "random"}, "order must be one of retrieved, reversed, gold_first, gold_last"),
        ({"answer_type": "poem"}, "answer_type must be one of short, long, yes_no"),
        ({"answer_type": None}, "answer_type must be one of"),
    ],
)
def test_a_value_out_of_range(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Options(**bad)


def test_the_papers_values_are_the_defaults() -> None:
    options = Options()
    assert (options.k, options.samples, options.sampling) == (5, 1, {})
    assert Options(samples=2).sampling == {"temperature": 0.7}
    assert (options.order, options.answer_type, options.timeout) == ("retrieved", "short", None)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"sample_temperature": 0.2}, {"temperature": 0.2}),
        ({"samples": 3, "sample_temperature": 1.0}, {"temperature": 1.0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"top_p": 0.5, "sample_temperature": 0.0}, {"temperature": 0.0, "top_p": 0.5}),
        ({"top_p": 0.5, "profile": "blendfilter"}, {"top_p": 0.5}),
        ({"profile": "slimplm"}, {"temperature": 0.01, "top_p": 0.85}),
        ({"top_p": 0.5, "samples": 2}, {"temperature": 0.7, "top_p": 0.5}),
        ({"top_p": 0}, {"temperature": 0.0}),
    ],
)
def test_what_is_asked_of_sampling_is_sent_also_with_one_sample(
    asked: dict[str, Any], sent: dict[str, float]
) -> None:
    assert Options(**asked).sampling == sent


def test_specialised_has_the_builds_values_as_defaults() -> None:
    build = Special(k=8, rounds=2, order="reversed")
    kind = specialised(build)
    assert kind() == kind(k=8, rounds=2, order="reversed")
    partial = kind(k=3)
    assert isinstance(partial, Special)
    assert (partial.k, partial.rounds, partial.order) == (3, 2, "reversed")
    assert (kind.__name__, kind.__doc__) == ("Special", "Options with one more.")


def test_specialised_checks_values_too() -> None:
    with pytest.raises(UsageError, match="k must be"):
        specialised(Special())(k=0)


def test_what_is_no_option_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no option 'nonsense'; options: k, answer_type.* rounds"):
        specialised(Special())(nonsense=1)  # type: ignore[call-arg]


def test_options_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Options().k = 3  # type: ignore[misc]


def test_a_method_has_a_paper_where_it_names_one() -> None:
    assert Special(profile="paper").paper == ""
    assert Special(profile="paper").k == Special(profile="ours").k
    assert Special(profile="post_fusion").paper == "post_fusion"
    for name in ("concat", "concat_pf", "pf_concat", "post_fusion", "pruning", "summary"):
        assert METHODS[name].options(profile="paper").paper == "post_fusion"
