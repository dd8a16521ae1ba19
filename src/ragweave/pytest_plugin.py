"""A pytest plugin: a build fails if a method scores below its baseline.

    def test_answers(ragweave_baseline):
        settings = EvalSettings(data="jsonl:tests/questions.jsonl", kb="kb", models={"generator": "openai:gpt-4o-mini"})
        ragweave_baseline(settings, "tests/baseline.json", metric="f1")

`pytest --ragweave-record` writes the baseline, which belongs in version control. Replies are stored in pytest's
cache: as long as prompts and passages stay the same, a build pays nothing. `pytest --cache-clear` asks again.

pytest loads this module in every project, so it imports ragweave's evaluation only when a test uses the fixture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragweave.evaluation import EvalSettings, Metric
    from ragweave.evaluation.folder import Record

_RECORD = "--ragweave-record"
_SHOWN = 3
"""Number of questions that a failure names."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("ragweave").addoption(
        _RECORD, action="store_true", help="Write new baselines for the fixture ragweave_baseline."
    )


@pytest.fixture
def ragweave_baseline(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Compare a run with its baseline; see `check_baseline`."""
    config = request.config
    cache = getattr(config, "cache", None)
    replies = cache.mkdir("ragweave") / "replies.sqlite" if cache else None
    return partial(check_baseline, folder=tmp_path, cache=replies, record=config.getoption(_RECORD))


def check_baseline(
    settings: EvalSettings,
    baseline: str | Path,
    metric: str = "",
    *,
    folder: Path,
    cache: Path | None = None,
    record: bool = False,
    **more: Any,
) -> None:
    """Fail the test if a system scores lower than its baseline.

    Scores are compared over the questions that both have. A difference counts if its paired 95 % bootstrap interval
    lies below 0, so that noise fails no build.

    Args:
        settings: The evaluation.
        baseline: The JSON file of the baseline: `{"metric": NAME, "scores": {SYSTEM: {QUESTION_ID: SCORE}}}`.
        metric: What is compared; "": the report's main metric.
        folder: Where the run is written.
        cache: A file of replies that several runs share.
        record: Whether the baseline is written, and nothing is compared.
        **more: More arguments of `evaluate`, such as `own` and `given`.
    """
    __tracebackhide__ = True
    from ragweave.evaluation import evaluate, read_report
    from ragweave.evaluation.folder import read_results

    summary = evaluate(settings, folder / "run", cache=cache, quiet=True, **more)
    records = list(read_results(folder / "run"))
    if summary.exit_code:
        errors = [record["error"]["text"] for record in records if record["error"]]
        pytest.fail(f"{summary.failed} questions failed: {summary.stopped or errors[0]}", pytrace=False)
    report = read_report(folder / "run", metric)
    now: dict[str, dict[str, float]] = {line.system: {} for line in report.lines}
    for result in records:
        if report.main in result["scores"]:
            now[result["system"]][result["id"]] = result["scores"][report.main]
    path = Path(baseline)
    if record:
        path.write_text(json.dumps({"metric": report.main, "scores": now}, indent=1) + "\n", "utf-8")
        return
    before = _read(path, report.main, now)
    faults = [_worse(system, report.metric, scores, before[system], records) for system, scores in now.items()]
    if any(faults):
        pytest.fail("\n".join([*filter(None, faults), f"If this is intended: pytest {_RECORD}"]), pytrace=False)


def _read(path: Path, metric: str, now: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return a baseline's scores by system; fail if it has another metric, or no question in common."""
    if not path.exists():
        pytest.fail(f"{path}: there is no baseline yet; pytest {_RECORD} writes it", pytrace=False)
    before = json.loads(path.read_text("utf-8"))
    scores: dict[str, dict[str, float]] = before["scores"]
    comparable = all(scores.get(system, {}).keys() & own.keys() for system, own in now.items())
    if before["metric"] != metric or not comparable:
        fault = f"holds {before['metric']}, not {metric}" if comparable else "has other systems or questions"
        pytest.fail(f"{path}: {fault}; pytest {_RECORD} overwrites it", pytrace=False)
    return scores


def _worse(
    system: str, metric: Metric, now: Mapping[str, float], before: Mapping[str, float], records: Sequence[Record]
) -> str:
    """Return a message that says by how much a system's scores fell, or "" if they did not."""
    from statistics import fmean

    from ragweave.evaluation.statistics import bootstrap

    gains = {name: score - before[name] for name, score in now.items() if name in before}
    sign, unit = 1 if metric.higher_is_better else -1, 100 if metric.percent else 1
    change = bootstrap([unit * gain for gain in gains.values()])
    if max(sign * change.low, sign * change.high) >= 0:
        return ""
    mean = unit * fmean(now[name] for name in gains)
    lines = [
        f"{system}: {metric.label} went from {mean - change.mean:.1f} to {mean:.1f} over {len(gains)} questions; "
        f"the difference is {change.mean:+.1f} [{change.low:+.1f}, {change.high:+.1f}]"
    ]
    worst = sorted(gains, key=lambda name: sign * gains[name])[:_SHOWN]
    lines += [
        f"  {record['question']} -> {record['answer']!r}, gold: {record['gold']}"
        for record in records
        if record["system"] == system and record["id"] in worst
    ]
    return "\n".join(lines)
