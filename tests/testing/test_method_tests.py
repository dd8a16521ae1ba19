"""The contract suite of methods bites: a broken method fails the check that it breaks, and no other."""

from __future__ import annotations

from unittest import SkipTest

import pytest
from tests.testing import looks as broken
from tests.testing.looks import HarshOptions, Looks, TonedOptions, ends_with, looks

from ragweave.graphs import Method
from ragweave.testing import MethodTests, ModelCall, Setting

PASSAGES = "test_passages_are_what_the_final_prompts_showed"
TRUNCATED = "test_truncated_tells_whether_a_limit_ended_the_run"
SAME = "test_sync_equals_async_equals_stream"
THREAD = "test_the_second_question_of_a_thread_starts_clean"
USAGE = "test_usage_counts_the_calls_made"
COSTS = "test_calls_lie_within_the_declared_costs"
OPTIONS = "test_every_option_does_something"
RUN = "test_an_option_of_a_run_is_that_of_the_build"
PROMPTS = "test_a_callers_prompts_replace_the_methods"
ODD = "test_odd_replies_never_raise"
GIVEN = "test_given_passages_take_the_place_of_retrieval"
JSON = "test_the_output_is_plain_json"

BROKEN = {
    "a passage too few": (PASSAGES, Looks(changes={"vote": broken.forgets_a_passage})),
    "passages in another order": (PASSAGES, Looks(changes={"vote": broken.reorders})),
    "never truncated": (TRUNCATED, Looks(changes=ends_with(truncated=False))),
    "async differs": (SAME, Looks(changes=ends_with(answer="Karl Oster"), ways=("async",))),
    "a thread leaks": (THREAD, Looks(changes={"begin": broken.keeps_candidates})),
    "a call not counted": (USAGE, Looks(changes={"answer": broken.misses_a_call})),
    "a call counted for another role": (
        USAGE,
        Looks(changes={"answer": broken.counts_for_another}),
    ),
    "makes an answer up": (ODD, Looks(changes={"answer": broken.makes_an_answer_up})),
    "retrieves though passages are given": (GIVEN, Looks(searches_always=True)),
    "a caller's prompts are lost": (PROMPTS, Looks(own_prompts=True)),
    "a run's options are passed over": (RUN, Looks(deaf=True)),
    "no JSON": (JSON, Looks(changes=ends_with(topic={"bridges"}))),
}


def failing(method: Method) -> list[str]:
    """Run each check of the suite on `method`; return the names of those that fail."""

    class Tests(MethodTests):
        cut_short = Setting(options={"rounds": 1})

        def reply(self, call: ModelCall) -> str:
            return "Ada Brenner" if "looked once" in call.text else "Unknown"

    Tests.method = method
    failed = []
    for name in sorted(name for name in dir(Tests) if name.startswith("test_")):
        try:
            getattr(Tests(), name)()
        except SkipTest:
            continue
        except AssertionError:
            failed.append(name)
    return failed


def test_a_sound_method_passes() -> None:
    assert failing(looks()) == []


@pytest.mark.parametrize("what", BROKEN)
def test_the_right_check_fails(what: str) -> None:
    check, method = BROKEN[what]
    assert failing(looks(method)) == [check]


def test_raising_on_an_odd_reply() -> None:
    """The options' check meets an odd reply too: it is what `ask_again` is about."""
    failed = failing(looks(Looks(changes={"answer": broken.refuses_odd_replies})))
    assert failed == sorted([ODD, OPTIONS])


def test_always_truncated() -> None:
    assert TRUNCATED in failing(looks(Looks(changes=ends_with(truncated=True))))


@pytest.mark.parametrize("options", [TonedOptions, HarshOptions])
def test_a_dead_option(options: type[TonedOptions | HarshOptions]) -> None:
    assert failing(looks(options=options)) == [OPTIONS]


@pytest.mark.parametrize(
    ("told", "checks"),
    [
        ({"best": "2·p + 1"}, [COSTS]),
        ({"worst": "p"}, [COSTS, ODD]),
        ({"worst": "rounds·p"}, [ODD]),  # a reply that is no answer is asked for again
    ],
)
def test_wrong_costs(told: dict[str, str], checks: list[str]) -> None:
    assert failing(looks(**told)) == checks
