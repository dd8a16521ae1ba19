"""Writes a run on a LangSmith data set back as experiments: one per system, with every answer and score."""

from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

from ragweave.errors import UsageError
from ragweave.evaluation.folder import Record, read_results, read_settings, shards

SCHEME = "langsmith:"


def write_experiments(folder: Path) -> list[str]:
    """Write a run's results to LangSmith, and return the experiments' names.

    The client reads `LANGSMITH_API_KEY` and `LANGSMITH_ENDPOINT`. Questions, answers, errors, times and scores are
    written, but no passages.

    Raises:
        UsageError: The run is not on a LangSmith data set, or LangSmith refuses.
    """
    from langsmith import Client
    from langsmith.utils import LangSmithError

    settings = read_settings(shards(folder)[0])
    data = str(settings["data"])
    if not data.startswith(SCHEME):
        raise UsageError(
            f"{folder}: LangSmith takes only the results of its own data sets, langsmith:NAME, not of {data}"
        )
    records = sorted(read_results(folder), key=lambda record: str(record["system"]))
    client, names = Client(), []
    try:
        dataset = client.read_dataset(dataset_name=data.removeprefix(SCHEME).partition("?")[0])
        for system, group in groupby(records, key=lambda record: str(record["system"])):
            names.append(f"{system}-{uuid4().hex[:8]}")
            about = {"system": system, "models": settings.get("models", {}), "version": settings["version"]}
            client.create_project(names[-1], reference_dataset_id=dataset.id, metadata=about)
            for record in group:
                _write(client, names[-1], record)
        client.flush()
    except LangSmithError as error:
        raise UsageError(f"{data}: {' '.join(str(error).split())}") from error
    return names


def _write(client: Any, experiment: str, record: Record) -> None:
    run, end = uuid4(), datetime.now(UTC)
    client.create_run(
        name=record["system"],
        inputs={"question": record.get("question", "")},
        run_type="chain",
        id=run,
        trace_id=run,
        project_name=experiment,
        reference_example_id=record["id"],
        outputs={name: record[name] for name in ("answer", "status") if name in record},
        error=record["error"] and record["error"]["text"],
        start_time=end - timedelta(seconds=record["seconds"]),
        end_time=end,
    )
    for metric, score in record["scores"].items():
        client.create_feedback(run_id=run, trace_id=run, key=metric, score=score)
