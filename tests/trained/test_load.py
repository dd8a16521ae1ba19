"""Loading parts: what is refused, and that nothing in a folder is run."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest
from tests.tiny_parts import finish, make_scorer, make_writer

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.trained import PartRole
from ragweave.trained.chat import PartChat, load_part
from ragweave.trained.filter import trained_filter
from ragweave.trained.forms import judge_input

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

PAIRS = [("who?", "Ada.", True), ("who?", "nobody", False)]


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    return make_scorer(tmp_path / "judge", "judge", PAIRS)


def test_a_part_is_loaded_by_its_role(tmp_path: Path, judge: Path) -> None:
    assert isinstance(load_part(judge, "judge"), PartChat)
    assert isinstance(load_part(judge), PartChat)
    assert load_part(make_scorer(tmp_path / "f", "filter", PAIRS), "filter").name == "trained"


@pytest.mark.parametrize("role", ["filter", "rewriter", "generator"])
def test_another_role_is_refused(judge: Path, role: PartRole) -> None:
    with pytest.raises(UsageError, match=f"was trained as a judge, but a {role} is needed here"):
        load_part(judge, role)
    with pytest.raises(UsageError, match="was trained as a judge, but a filter is needed here"):
        trained_filter(str(judge))


def test_no_folder_no_part_and_no_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        load_part(tmp_path / "nowhere")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=r"is a file.*llamacpp:"):
        load_part(tmp_path / "model.gguf")
    with pytest.raises(UsageError, match="is not a trained part"):
        load_part(tmp_path)
    (tmp_path / "training.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="its training did not finish"):
        load_part(tmp_path)


def test_another_version_and_another_kind(judge: Path) -> None:
    card = json.loads((judge / "part.json").read_text("utf-8"))
    for changed, said in (
        ({"format": 99}, "has format 99.*upgrade ragweave"),
        ({"kind": "oracle"}, "is of kind 'oracle'"),
    ):
        (judge / "part.json").write_text(json.dumps({**card, **changed}), "utf-8")
        with pytest.raises(UsageError, match=said):
            load_part(judge)


class Trap:
    """A pickle that says so when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("import sys; sys.ragweave_was_run = True",))


def test_nothing_of_a_folder_is_run(judge: Path) -> None:
    code = "import sys\nsys.ragweave_was_run = True\n"
    for name, content in {
        "modeling_evil.py": code.encode(),
        "pytorch_model.bin": pickle.dumps(Trap()),
        "extra/trap.pkl": pickle.dumps(Trap()),
        "evil.so": b"\x7fELF",
    }.items():
        file = judge / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        with pytest.raises(UsageError, match=Path(name).name):
            load_part(judge, "judge")
        file.unlink()
    for name in ("config.json", "tokenizer_config.json"):
        kept = (judge / name).read_text("utf-8")
        asks = {**json.loads(kept), "auto_map": {"AutoModel": "modeling_evil.Evil"}}
        (judge / name).write_text(json.dumps(asks), "utf-8")
        with pytest.raises(UsageError, match=f"{name} refers to custom code"):
            load_part(judge, "judge")
        (judge / name).write_text(kept, "utf-8")
    assert not hasattr(sys, "ragweave_was_run")
    load_part(judge, "judge")


def test_a_link_out_of_the_folder_is_refused(judge: Path, tmp_path: Path) -> None:
    weights = judge / "model.safetensors"
    weights.rename(tmp_path / "elsewhere.safetensors")
    weights.symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(UsageError, match="leads out of the folder"):
        load_part(judge)


def test_damaged_weights_are_one_line(judge: Path, tmp_path: Path) -> None:
    weights = judge / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    writer = make_writer(tmp_path / "w", "judge", {judge_input("who?", "Ada.").text: "x"})
    (writer / "adapter_model.safetensors").write_bytes(b"short")
    for folder in (judge, writer):
        with pytest.raises(ModelError) as told:
            load_part(folder)
        assert "\n" not in str(told.value)
        assert str(folder) in str(told.value)


def test_the_card_alone_is_read_before_the_weights_are_wanted(tmp_path: Path) -> None:
    """A folder without any weights can be looked at and checked for its role."""
    folder = finish(tmp_path / "judge", "judge", "cross-encoder", threshold=0.4)
    assert PartChat(str(folder)).role == "judge"
    with pytest.raises((UsageError, ModelError)):
        load_part(folder)


def test_a_missing_extra_is_named(judge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="ragweave\\["):
        load_part(judge)


def test_a_part_that_was_trained_anew_is_read_anew(tmp_path: Path) -> None:
    from langchain_core.messages import HumanMessage

    from ragweave.tools.models.tasks import attach

    message = attach(HumanMessage(""), {"task": "judge", "question": "who?", "draft": "Ada."})
    folder = make_scorer(tmp_path / "judge", "judge", PAIRS)
    before = load_part(folder, "judge")
    assert before.invoke([message]).content == "<Known(True)>"
    make_scorer(folder, "judge", [(a, b, not label) for a, b, label in PAIRS])
    assert load_part(folder, "judge").invoke([message]).content == "<Known(False)>"
    assert before.invoke([message]).content == "<Known(True)>"
