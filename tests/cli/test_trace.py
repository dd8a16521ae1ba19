"""`ask --trace` and `--save`: the steps of a run, the path taken, every prompt, reply and passage."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import run

from ragweave.testing import ModelCall, ScriptedModel
from ragweave.tools.footnotes import MEANING

Models = dict[str, ScriptedModel]
QUESTION = "When was the Old Bridge of Varn opened?"


def falls_back(call: ModelCall) -> str:
    return "Unknown" if call.node == "concat" else "1932 <b>"


def asked(scripted: Models, kb: Path, *more: str, script: Any = falls_back) -> Any:
    scripted["x"] = ScriptedModel(script=script)
    return run("ask", QUESTION, "--kb", str(kb), "-k", "2", "--model", "scripted:x", *more)


def page(scripted: Models, kb: Path, tmp_path: Path, *more: str, script: Any = falls_back) -> str:
    asked(scripted, kb, "--trace", "--save", str(tmp_path / "run.html"), *more, script=script)
    return (tmp_path / "run.html").read_text("utf-8")


def test_the_tree_has_each_step_with_its_result(scripted: Models, kb: Path) -> None:
    lines = asked(scripted, kb, "--trace").stdout.splitlines()
    nodes = [line.split()[1] for line in lines[1:] if line.startswith(("├", "└"))]
    expected = "begin retrieve collect concat concat_vote post_fusion post_fusion vote"
    assert nodes == expected.split()
    concat = next(line for line in lines if "concat " in line)
    assert re.search(r"concat  \d+ ms  1 call, \d+ \+ \d+ tokens  → Unknown", concat)


def test_answer_and_quotes_are_written_to_a_page_or_as_markdown(scripted: Models, kb: Path, tmp_path: Path) -> None:
    for name, shown in (
        ("answer.html", ">[1]</a></sup>"),
        ("answer.md", "212 metres [1]\n\n## Quotes\n\n" + MEANING + "\n\n1. “"),
    ):
        asked(scripted, kb, "--save", str(tmp_path / name), script=lambda _call: "212 metres")
        assert shown in (tmp_path / name).read_text("utf-8")


def test_json_with_trace_has_prompts_and_replies(scripted: Models, kb: Path) -> None:
    out = json.loads(asked(scripted, kb, "--json", "--trace").stdout)
    assert (out["method"], out["answer"]) == ("concat_pf", "1932 <b>")
    concat = next(step for step in out["steps"] if step["node"] == "concat")
    (call,) = concat["asked"]
    assert (call["role"], call["reply"]) == ("generator", "Unknown")
    assert QUESTION in call["prompt"][-1]["text"]
    retrieve = next(step for step in out["steps"] if step["node"] == "retrieve")
    assert retrieve["searched"] == [{"query": QUESTION, "passages": 2, "error": ""}]
    assert len(retrieve["passages"]["retrieved for question"]) == 2


def test_the_page_draws_the_path_and_loads_nothing(scripted: Models, kb: Path, tmp_path: Path) -> None:
    html = page(scripted, kb, tmp_path)
    assert "<script" not in html
    assert "default-src 'none'" in html
    assert not re.search(r"""(?:src|href)=["'](?!#)""", html)
    picture = re.search(r"<svg.*?</svg>", html, re.DOTALL)
    assert picture
    boxes = re.findall(r'<g class="(?:box|end) (on|off)">.*?<text[^>]*>([^<]*)<', picture[0])
    assert [name for state, name in boxes if state == "off"] == ["whole_collection"]  # Concat and Post-Fusion both ran
    assert "post_fusion ×2" in picture[0]
    assert 'href="#node-post-fusion"' in picture[0]
    assert 'id="node-post-fusion"' in html


def test_the_page_shows_prompts_replies_and_passages_escaped(scripted: Models, kb: Path, tmp_path: Path) -> None:
    html = page(scripted, kb, tmp_path)
    assert "1932 &lt;b&gt;" in html
    assert "<b>\n" not in html
    assert html.count("The Old Bridge of Varn was opened in 1932.") > 2
    assert "searched: When was the Old Bridge of Varn opened? → 2 passages" in html
    opened = re.findall(r'<details id="([\w-]+)" open>', html)
    assert opened == ["node-post_fusion"] or opened == ["node-post-fusion"]


def test_quotes_are_marked_in_their_passages(scripted: Models, kb: Path, tmp_path: Path) -> None:
    html = page(scripted, kb, tmp_path, script=["1932"])
    assert '1932<sup><a href="#quote-1" title="' in html
    assert '<mark id="quote-1"><b>1</b> The Old Bridge of Varn was opened in 1932.</mark>' in html


def test_a_run_that_fails_has_a_page_too(scripted: Models, kb: Path, tmp_path: Path) -> None:
    html = page(scripted, kb, tmp_path, "--method", "skr_knn", script=["1932"])
    assert "The run did not finish" in html
    assert 'class="answer failed"' in html


def test_a_conversation_shows_the_steps_of_its_method(scripted: Models, kb: Path, tmp_path: Path) -> None:
    asked(scripted, kb, script=["1932"])
    lines = asked(scripted, kb, "-c", "--trace", script=["1932"]).stdout.splitlines()
    assert any("restate" in line for line in lines)
    assert any("concat_pf › concat " in line for line in lines)
