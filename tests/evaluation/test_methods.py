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
    said = json.dumps(filled(form["schema"], form["schema"])) if form else "Yes" if body.get("max_tokens") == 1 else ""
    return Reply(said or SAYS[len(json.dumps(body["messages"])) % len(SAYS)], (100, 10))


def filled(schema: dict[str, Any], whole: dict[str, Any]) -> Any:
    """Return a value that a JSON schema allows."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    for value in (schema.get("const"), *schema.get("enum", [])[:1]):
        if value is not None:
            return value
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], whole)
    kinds = {"array": [], "boolean": True, "integer": 1, "number": 1.0, "string": "1931"}
    if schema["type"] != "object":
        return kinds[schema["type"]]
    return {name: filled(one, whole) for name, one in schema["properties"].items()}


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
    found: list[list[dict[str, Any]]] = []
    for name in ("first", "second"):
        summary = evaluate(run, tmp_path / name, cache=tmp_path / "r.sqlite", quiet=True)
        assert summary.exit_code == 0
        records = read_results(tmp_path / name)
        found.append([{key: value for key, value in one.items() if key not in ("seconds", "calls")} for one in records])
        if name == "first":
            paid, stored = server.count, summary.calls
    assert server.count == paid
    assert stored == paid
    assert found[0] == found[1]


@pytest.mark.loopback
def test_samples_are_samples_again(
    spec: str, server: OpenAIServer, questions: Callable[[int], str], tmp_path: Path
) -> None:
    server.script = lambda _: Reply(str(1900 + server.count), (100, 10))
    run = EvalSettings(data=questions(2), systems=("concat[samples=3]",), models={"generator": spec})
    for name in ("first", "second"):
        evaluate(run, tmp_path / name, cache=tmp_path / "r.sqlite", quiet=True)
    first, second = ([one["candidates"] for one in read_results(tmp_path / name)] for name in ("first", "second"))
    said = [[sorted(one["answer"] for one in row.values()) for row in rows] for rows in (first, second)]
    assert said[0] == said[1], "each sample is one of the replies, whichever asked first"
    assert len(set(said[0][0])) == 3
    assert server.count == 6
