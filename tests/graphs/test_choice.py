"""A file of `ragweave tune` in the place of a method's name."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave import KnowledgeBase, build_graph
from ragweave.errors import UsageError
from ragweave.graphs.specs import SystemSpec, read_system, write_choice
from ragweave.testing import ScriptedModel

CHOICE = """\
method: concat_pf
options: {k: 1}
prompts:
  concat:
  - [system, Be brief.]
  - [human, "{passages} Question: {question} {unknown}"]
retriever: bm25
kb: bases/bridges
models: {generator: extractive}
decision: {gain: 3.1}
"""


@pytest.fixture
def choice(tmp_path: Path) -> str:
    with KnowledgeBase.create(tmp_path / "bases" / "bridges", settings={"embedding": None}) as base:
        base.add([Document("The bridge at Alden was built by Ada Brenner."), Document("The bridge at Veld fell.")])
    (tmp_path / "choice.yaml").write_text(CHOICE)
    return str(tmp_path / "choice.yaml")


QUESTION = {"question": "Who built the bridge at Alden?"}


def test_a_graph_is_built_from_a_file(choice: str) -> None:
    out = build_graph(choice).invoke(QUESTION)
    assert "Ada Brenner" in out["answer"]
    assert len(out["passages"]) == 1


def test_arguments_replace_what_the_file_says(choice: str) -> None:
    model = ScriptedModel(script=["Karl Oster"])
    out = build_graph(choice, model=model, k=2).invoke(QUESTION)
    assert (out["answer"], len(out["passages"])) == ("Karl Oster", 2)
    assert "Be brief." in model.calls[0].text
    build_graph(choice, model=model, prompts={"concat": "{passages} {question}"}).invoke(QUESTION)
    assert "Be brief." not in model.calls[1].text


def test_what_is_written_is_read(choice: str, tmp_path: Path) -> None:
    system = read_system("blendfilter[queries=question+internal,k=4,retriever=bm25]")
    assert system.retriever == "bm25"
    place = str(tmp_path / "bases" / "bridges")
    how: Any = {"retriever": "bm25", "prefer": "newest", "models": {"proxy": "extractive"}}
    written = SystemSpec(system.method, system.options, kb=place, **how)
    write_choice(tmp_path / "other.yaml", written, {"decision": {"gain": 1.0}})
    again = read_system(str(tmp_path / "other.yaml"))
    assert again.method is system.method
    assert {**again.options} == {"queries": ("question", "internal"), "k": 4}
    assert (again.retriever, again.prefer, Path(again.kb)) == ("bm25", "newest", Path(place))
    assert again.models == {"proxy": "extractive"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- concat", "the file"),
        ("options: {k: 3}", "method"),
        ("method: concat\noptions: {kk: 3}", "kk"),
        ("method: concat\nmodels: {baker: extractive}", "models.baker"),
        ("method: concat\nmodels: {generator: 'openai:m?api_key=***'}", "keys are not stored"),
        ("method: [", "cannot be read"),
        ("method: concat\noptions: {k: 3}\nmethod: direct", "line 3 repeats a name"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "choice.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        build_graph(str(tmp_path / "choice.yaml"))
