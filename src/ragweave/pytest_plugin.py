"""A pytest plugin: a build fails if a method scores below its baseline.

    def test_answers(ragweave_baseline):
        settings = EvalSettings(data="jsonl:tests/questions.jsonl", kb="kb", models={"generator": "openai:gpt-4o-mini"})
        ragweave_baseline(settings, "tests/baseline.json", metric="f1")

`pytest --ragweave-record` writes the baseline, which belongs in version control. Replies are stored in pytest's
cache: as long as prompts and passages stay the same, a build pays nothing. `pytest --cache-clear` asks again.

pytest loads this module in every project, so it imports ragweave only when a test uses the fixture.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

_RECORD = "--ragweave-record"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("ragweave").addoption(
        _RECORD, action="store_true", help="Write new baselines for the fixture ragweave_baseline."
    )


@pytest.fixture
def ragweave_baseline(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Compare a run with its baseline; see `ragweave.testing.baseline.check_baseline`."""
    from ragweave.testing.baseline import check_baseline

    config = request.config
    cache = getattr(config, "cache", None)
    replies = cache.mkdir("ragweave") / "replies.sqlite" if cache else None
    return partial(check_baseline, folder=tmp_path, cache=replies, record=config.getoption(_RECORD))
