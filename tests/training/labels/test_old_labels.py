"""A labelling that an earlier version began is resumed.

`begun` was written before the journal was shared with evaluation: of four questions one labelled,
one dropped and two failed behind their drafts, and a last line that was cut off by a kill.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.scripted import ScriptedChat, Seen
from tests.training.labels.rows import label, read

from ragweave.training.labels import LabelConfig, RewriteLabeler

BEGUN = Path(__file__).with_name("begun")


def claims(seen: Seen) -> str:
    town = "Town 2" if "town 2" in seen.text else "Town 3"
    return f"<Claims> <Claim({town} lies by the sea)> <Search(True)> <Query({town} sea)> </Claims>"


def test_it_goes_on_and_pays_for_no_reply_twice(tmp_path: Path) -> None:
    for name in ("qa.jsonl", "out.jsonl.partial"):
        shutil.copy(BEGUN / name, tmp_path)
    teacher, proxy = ScriptedChat(replies=claims), ScriptedChat(replies=["another draft"])
    labeler = RewriteLabeler(
        teacher=teacher, teacher_spec="teacher", proxy=proxy, proxy_spec="proxy"
    )
    done = label(
        tmp_path / "qa.jsonl",
        labeler,
        tmp_path / "out.jsonl",
        config=LabelConfig(retry_failed=True),
    )
    assert (len(teacher.seen), len(proxy.seen)) == (2, 0)
    assert dict(done.dropped) == {"unreadable reply": 1}
    assert [(row["id"], row["draft"]) for row in read(done.path)] == [
        (f"q{index}", f"Town {index} lies by the sea.") for index in (0, 2, 3)
    ]
    assert not (tmp_path / "out.jsonl.partial").exists()
