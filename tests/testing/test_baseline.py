"""The pytest plugin, in a project of its own."""

import json

import pytest

import ragweave.evaluation  # noqa: F401 - see `project`
from ragweave import build_graph

pytest_plugins = "pytester"

TEST = """
from ragweave.evaluation import EvalSettings

def test_answers(ragweave_baseline):
    models = {"generator": "extractive?similarity=lexical"}
    settings = EvalSettings(data="jsonl:questions.jsonl", systems=("concat",), passages="given", models=models)
    ragweave_baseline(settings, "baseline.json", METRIC)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with one test; `run` gives it twenty questions about bridges."""
    # Loaded before the first run: pytester unloads what a run loads.
    build_graph("concat", model="extractive?similarity=lexical").invoke({"question": "?", "passages": ["A."]})
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return pytester


def run(project: pytest.Pytester, metric: str, passage: str, *arguments: str) -> pytest.RunResult:
    rows = [
        {"question": f"When did bridge {at} open?", "answers": ["1931"], "passages": [passage.format(at)]}
        for at in range(20)
    ]
    (project.path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    project.makepyfile(TEST.replace("METRIC", repr(metric)))
    return project.runpytest_inprocess("-p", "ragweave.pytest_plugin", *arguments)


RIGHT, WRONG, SILENT = "Bridge {} opened in 1931.", "Bridge {} opened in 1932.", "A cat sat on mat {}."


def test_a_build_fails_if_a_method_answers_worse(project: pytest.Pytester) -> None:
    run(project, "contains", RIGHT).stdout.fnmatch_lines("*there is no baseline yet; pytest --ragweave-record*")
    run(project, "contains", RIGHT, "--ragweave-record").assert_outcomes(passed=1)
    run(project, "contains", RIGHT).assert_outcomes(passed=1)
    failed = run(project, "contains", WRONG)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(
        [
            "concat: Contains went from 100.0 to 0.0 over 20 questions; the difference is -100.0 [[]-100.0, -100.0[]]",
            "  When did bridge * open? -> 'Bridge * opened in 1932', gold: [[]'1931']",
            "If this is intended: pytest --ragweave-record",
        ]
    )
    run(project, "f1", RIGHT).stdout.fnmatch_lines("*holds contains, not f1; pytest --ragweave-record overwrites it")


def test_a_metric_of_which_less_is_better(project: pytest.Pytester) -> None:
    run(project, "unknown", SILENT, "--ragweave-record").assert_outcomes(passed=1)
    run(project, "unknown", RIGHT).assert_outcomes(passed=1)
    run(project, "unknown", RIGHT, "--ragweave-record").assert_outcomes(passed=1)
    run(project, "unknown", SILENT).stdout.fnmatch_lines("concat: * went from 0.0 to 100.0 *")
