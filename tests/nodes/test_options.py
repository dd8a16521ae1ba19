"""Options: misspelt ones, a run's beside the build's, and a paper's settings."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.graphs.crag import CragOptions
from ragweave.graphs.slimplm import SlimPlmOptions
from ragweave.nodes.options import Options, make_options, with_defaults
from ragweave.testing import RecordingRetriever, ScriptedModel

ASK = {"question": "Who built the bridge at Alden?"}


def test_a_misspelt_option_is_named() -> None:
    with pytest.raises(UsageError, match="did you mean 'samples'"):
        build_graph("concat", smaples=2)
    with pytest.raises(UsageError, match="did you mean 'retriever'"):
        build_graph("concat", retreiver=None)
    with pytest.raises(UsageError, match="'max_strips' is an option of crag"):
        build_graph("concat", max_strips=2)
    graph = build_graph("concat", retriever=RecordingRetriever())
    with pytest.raises(UsageError, match="greater than or equal to 1"):
        graph.invoke(ASK, context={"k": 0})
    with pytest.raises(UsageError, match="must be a mapping of options"):
        graph.invoke(ASK, context=8)


def test_a_run_overrides_one_option_and_leaves_the_builds_others() -> None:
    model = ScriptedModel(script=["Ada"])
    graph = build_graph("concat", model=model, retriever=RecordingRetriever(), samples=2)
    assert graph.invoke(ASK, context={"k": 3})["usage"]["calls"] == 2
    options: Any = with_defaults(CragOptions, {"max_strips": 2, "profile": "ours"})
    assert (options(k=3).k, options(k=3).max_strips, options().max_strips) == (3, 2, 2)
    schema = options.model_json_schema()["properties"]["max_strips"]
    assert schema["default"] == 2
    assert "appendix B.2" in schema["description"]


def test_a_papers_settings_rank_below_the_callers() -> None:
    own: Any = with_defaults(SlimPlmOptions, {"profile": "paper", "top_p": 0.5})
    assert (own().unknown, own().constrain, own().sample_temperature, own().top_p) == (False, False, None, 0.5)
    form = {name: field.default for name, field in own.model_fields.items()}
    assert own(**form) == own(), "a form that only shows a value chose nothing"
    assert own(**{**form, "unknown": True, "profile": "ours"}).unknown is True


def test_a_named_papers_settings_hold_for_other_methods() -> None:
    row = make_options(Options, {"profile": "slimplm"})
    assert (row.paper, row.k, row.sampling) == ("slimplm", 20, {"temperature": 0.01, "top_p": 0.85})
    assert make_options(Options, {"profile": "paper"}).paper == ""
    assert make_options(Options, {"profile": "strategyqa"}).default_answer_type == "yes_no"


def test_a_default_may_follow_from_another_option() -> None:
    class Budgeted(Options):
        budget: int = 300

        def derived(self) -> dict[str, Any]:
            return {"k": self.budget // 50, **super().derived()}

    assert (make_options(Budgeted, {}).k, make_options(Budgeted, {"budget": 100}).k) == (6, 2)
    assert (make_options(Budgeted, {"k": 9}).k, make_options(Budgeted, {"profile": "sure"}).k) == (9, 10)
    built: Any = with_defaults(Budgeted, {"budget": 200})
    assert (built().k, built(budget=50).k, with_defaults(Budgeted, {"k": 7})().k) == (4, 1, 7)


def test_sampling() -> None:
    assert make_options(Options, {"samples": 3}).sampling == {"temperature": 0.7}
    assert make_options(Options, {"top_p": 0}).sampling == {"temperature": 0.0}
    assert make_options(Options, {"top_p": 0.5}).sampling == {"temperature": 1.0, "top_p": 0.5}
    assert make_options(Options, {}).sampling == {}
