"""The update that nodes return matches the state that they read."""

from __future__ import annotations

from ragweave.state import RAGState, Update

NEVER_WRITTEN = {"answer_type", "gold_answers", "remaining_steps"}
"""What comes with the input or from the framework."""


def test_a_node_may_write_every_field_of_the_state_and_no_other() -> None:
    assert Update.__annotations__.keys() == RAGState.__annotations__.keys() - NEVER_WRITTEN


def test_a_node_writes_any_part_of_it() -> None:
    assert not Update.__required_keys__
