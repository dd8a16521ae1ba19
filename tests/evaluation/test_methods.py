"""Every method's calls go through the cache: a second run asks for nothing and says the same."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.conftest import Questions
from tests.openai_server import OpenAIServer, Reply

from ragweave.evaluation import EvalSettings, evaluate
from ragweave.evaluation.folder import read_results
from ragweave.graphs import METHODS

SAYS = ("The answer is 1931.", "Yes", "No", "Unknown", "So the answer is: 1931.")


def script(body: dict[str, Any]) -> Reply:
    """Fill the form that is asked for, else say one of a few things."""
    form = (body.get("response_format") or {}).get("json_schema")
    content = (
        json.dumps(filled(form["schema"], form["schema"])) if form else "Yes" if body.get("max_tokens") == 1 else ""
    )
    return Reply(content or SAYS[len(json.dumps(body["messages"])) % len(SAYS)], (100, 10))


def filled(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Return a value that a JSON schema allows."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for value in (schema.get("const"), *schema.get("enum", [])[:1]):
        if value is not None:
            return value
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], root)
    kinds = {"array": [], "boolean": True, "integer": 1, "number": 1.0, "string": "1931"}
    if schema["type"] != "object":
        return kinds[schema["type"]]
    return {name: filled(field, root) for name, field in schema["properties"].items()}


@pytest.mark.loopback
def test_a_second_run_is_free(server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path) -> None:
    server.script, training = script, tmp_path / "needed.jsonl"
    rows = [{"question": f"When did tower {at} open?", "needed": at % 2 == 0} for at in range(8)]
    training.write_text("\n".join(map(json.dumps, rows)))
    options = {"uncertainty_gate": "[gate=mean]", "skr_knn": f"[training={training}]"}
    systems = tuple(name + options.get(name, "") for name in METHODS.names())
    run = EvalSettings(data=questions(2), systems=systems, models={"generator": spec})
    runs = list[dict[tuple[str, str], dict[str, Any]]]()
    for name in ("first", "second"):
        summary = evaluate(run, tmp_path / name, cache=tmp_path / "r.sqlite", quiet=True)
        assert summary.exit_code == 0
        records = {(record["id"], record["system"]): record for record in read_results(tmp_path / name)}
        runs.append({key: {**record, "seconds": 0, "calls": 0} for key, record in records.items()})
        if name == "first":
            paid, stored = server.count, summary.calls
    assert server.count == stored == paid
    assert len(runs[0]) == 2 * len(systems)
    assert runs[0] == runs[1]
