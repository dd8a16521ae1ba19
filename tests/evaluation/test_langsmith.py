"""LangSmith: its data sets are read, and results are written back, over the client's own interface."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec
from uuid import UUID

import langsmith
import pytest
from langsmith.utils import LangSmithNotFoundError

from ragweave.datasets import open_dataset
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings, evaluate
from ragweave.evaluation.langsmith import write_experiments

EXAMPLES = [
    SimpleNamespace(
        id=UUID(int=at),
        inputs={"question": f"When did bridge {at} open?", "passages": [f"Bridge {at} opened in 1931."]},
        outputs={"answer": "1931"},
    )
    for at in range(2)
]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client that checks the arguments of its calls, and knows one data set, `bridges`."""
    client = create_autospec(langsmith.Client, instance=True)
    client.list_examples.side_effect = lambda dataset_name: iter(EXAMPLES)
    client.read_dataset.return_value = SimpleNamespace(id=UUID(int=7))
    monkeypatch.setattr(langsmith, "Client", lambda: client)
    return client


def test_a_data_set_is_read_and_experiments_are_written(client: Any, tmp_path: Path) -> None:
    settings = EvalSettings(data="langsmith:bridges", systems=("concat", "post_fusion[k=1]"), metrics=("em", "f1"))
    assert evaluate(settings, tmp_path, quiet=True).answered == 4
    names = write_experiments(tmp_path)
    assert [name.partition("-")[0] for name in names] == ["concat", "post_fusion[k=1]"]
    assert client.create_project.call_args.kwargs["reference_dataset_id"] == UUID(int=7)
    runs = [call.kwargs for call in client.create_run.call_args_list]
    assert [run["reference_example_id"] for run in runs] == [str(run.id) for run in EXAMPLES] * 2
    assert all("1931" in run["outputs"]["answer"] and run["error"] is None for run in runs)
    feedback = [call.kwargs for call in client.create_feedback.call_args_list]
    assert {(score["run_id"], score["key"]) for score in feedback} == {
        (run["id"], key) for run in runs for key in ("em", "f1")
    }
    client.flush.assert_called_once()


def test_what_langsmith_refuses_is_one_line(client: Any, tmp_path: Path) -> None:
    client.list_examples.side_effect = LangSmithNotFoundError("Dataset bridge not found")
    with pytest.raises(UsageError, match="langsmith:bridge: Dataset bridge not found"):
        list(open_dataset("langsmith:bridge"))
    (tmp_path / "run.json").write_text('{"data": "jsonl:q.jsonl"}')
    with pytest.raises(UsageError, match="its own data sets"):
        write_experiments(tmp_path)
