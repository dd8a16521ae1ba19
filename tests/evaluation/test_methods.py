"""Every method's calls go through the cache: a second run asks for nothing and says the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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
@pytest.mark.parametrize("method", [*METHODS.names()])
def test_a_second_run_is_free(
    server: OpenAIServer, spec: str, questions: Callable[[int], str], tmp_path: Path, method: str
) -> None:
    server.script, options = script, {"gate": "mean"} if method == "uncertainty_gate" else {}
    if method == "skr_knn":
        rows = [{"question": f"When did tower {at} open?", "needed": at % 2 == 0} for at in range(8)]
        (tmp_path / "needed.jsonl").write_text("\n".join(map(json.dumps, rows)))
        options = {"training": str(tmp_path / "needed.jsonl")}
    run = EvalSettings(data=questions(2), systems=(method,), models={"generator": spec}, options=options)
    runs: list[list[dict[str, Any]]] = []
    for name in ("first", "second"):
        summary = evaluate(run, tmp_path / name, cache=tmp_path / "r.sqlite", quiet=True)
        assert summary.exit_code == 0
        records = read_results(tmp_path / name)
        runs.append(
            [{key: value for key, value in record.items() if key not in ("seconds", "calls")} for record in records]
        )
        if name == "first":
            paid, stored = server.count, summary.calls
    assert server.count == paid
    assert stored == paid
    assert runs[0] == runs[1]
