from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.trained import FORMAT, ModelCard, check_safe, is_part, read_card, write_card

CARD = ModelCard(role="judge", kind="cross-encoder", base="minilm", threshold=0.4)


def test_a_card_comes_back_as_written(tmp_path: Path) -> None:
    assert not is_part(tmp_path)
    write_card(tmp_path, CARD)
    assert is_part(tmp_path)
    assert read_card(tmp_path, "judge") == CARD
    assert [one.name for one in tmp_path.iterdir()] == ["part.json"]


def test_a_part_for_another_role(tmp_path: Path) -> None:
    write_card(tmp_path, CARD)
    with pytest.raises(UsageError, match="was trained as a judge, but a filter is needed"):
        read_card(tmp_path, "filter")


def test_what_is_no_part(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a trained part \(it has no part.json\)"):
        read_card(tmp_path / "nowhere")
    (tmp_path / "training.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="its training did not finish"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": FORMAT + 1}, "upgrade ragweave"),
        ({"format": 0}, "train the part again"),
        ({"format": "x"}, "is not the card"),
        ({"role": "poet"}, "role"),
        ({"kind": None}, "kind"),
        ({"settings": None}, "settings"),
        ({"data": None}, "data"),
        ({"metrics": [1]}, "metrics"),
        ({"base": 3}, "base"),
        ({"threshold": "0.6"}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"threshold": 2}, "threshold"),
    ],
)
def test_cards_that_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    write_card(tmp_path, CARD)
    fields = json.loads((tmp_path / "part.json").read_text("utf-8")) | change
    if fields["kind"] is None:
        del fields["kind"]
    (tmp_path / "part.json").write_text(json.dumps(fields), "utf-8")
    with pytest.raises(UsageError, match=said):
        read_card(tmp_path)


def test_a_damaged_card(tmp_path: Path) -> None:
    (tmp_path / "part.json").write_text('{"role": ', "utf-8")
    with pytest.raises(UsageError, match=r"part\.json: cannot be read"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    "name", ["model.py", "pytorch_model.bin", "sub/optimizer.pt", "a.PKL", "x.so"]
)
def test_code_and_pickles_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UsageError, match=name):
        check_safe(tmp_path)


def test_configurations_that_name_code_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoModel": "m.M"}}', "utf-8")
    with pytest.raises(UsageError, match="auto_map"):
        check_safe(tmp_path)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("{}", "utf-8")
    folder = tmp_path / "part"
    folder.mkdir()
    (folder / "config.json").symlink_to(tmp_path / "out.json")
    with pytest.raises(UsageError, match="leads out"):
        check_safe(folder)


def test_weights_tokenizer_and_onnx_are_fine(tmp_path: Path) -> None:
    for name in ("model.safetensors", "model.onnx", "tokenizer.json", "README.md"):
        (tmp_path / name).write_bytes(b"{}")
    check_safe(tmp_path)
