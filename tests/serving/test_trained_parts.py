"""Trained parts in the Studio's form, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_parts import finish, make_scorer

from ragweave.errors import UsageError
from ragweave.serving.studio import studio_graph, studio_picture

pytest.importorskip("torch")
pytest.importorskip("transformers")

QUESTION = {"question": "Who designed the bridge?", "passages": ["Ada designed it. It is long."]}


def test_a_folder_in_the_form_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("who designed the bridge?", "ada designed it.", True), ("a", "b", False)]
    folder = make_scorer(tmp_path / "filter", "filter", pairs)
    given = {"trained_filter": str(folder), "threshold": 1.0}
    out = studio_graph("filco", given).invoke(QUESTION)
    assert [one.page_content for one in out["passages"]] == QUESTION["passages"]
    given = {"trained_filter": f"part:{folder}?threshold=0", "top": 1}
    out = studio_graph("filco", given).invoke(QUESTION)
    assert out["passages"][0].page_content in ("Ada designed it.", "It is long.")
    monkeypatch.setenv("RAGWEAVE_TRAINED_FILTER", str(folder))
    assert studio_graph("concat").invoke(QUESTION)["passages"], "it has no filter, and needs none"
    studio_picture("filco")


def test_the_role_is_checked_there_too(tmp_path: Path) -> None:
    folder = str(finish(tmp_path / "part", "rewriter", "seq2seq"))
    with pytest.raises(UsageError, match="was trained as a rewriter, but a judge is needed here"):
        studio_graph("slimplm", {"judge": folder})
    with pytest.raises(UsageError, match="was trained as a rewriter, but a filter is needed here"):
        studio_graph("filco", {"trained_filter": folder})
