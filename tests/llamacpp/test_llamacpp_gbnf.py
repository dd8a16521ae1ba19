"""Grammars for verdicts and ids, held to by a real engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.llamacpp.gbnf import id_list, one_of
from ragweave.llamacpp.sampling import Grammar
from ragweave.nodes.proxy import EXAMPLE_REWRITE
from ragweave.nodes.step_grammars import notes_form, react_form, rewrite_form, self_ask_form

texts = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4)


@pytest.fixture
def hot(make_chat):
    return make_chat(temperature=1.5, max_tokens=200)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(texts=texts, seed=st.integers(0, 99))
def test_a_choice_is_one_of_the_texts(hot, texts: list[str], seed: int) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    texts = [text for text in texts if "\0" not in text] or ["a"]
    assert hot.invoke("x", grammar=one_of(texts), seed=seed).content in texts


def test_ids_come_in_order_and_once(hot) -> None:
    ids = [str(i) for i in range(12)]
    said = {hot.invoke("x", grammar=id_list(ids), seed=seed).content for seed in range(40)}
    for reply in said - {"none"}:
        named = [int(part) for part in reply.split(", ")]
        assert named == sorted(set(named))
        assert set(named) <= set(range(12))
    assert len(said) > 5


def test_nothing_to_choose_from_is_the_callers_mistake() -> None:
    for wrong in ([], ["a", ""]):
        with pytest.raises(UsageError):
            one_of(wrong)
        with pytest.raises(UsageError):
            id_list(wrong)


REACT = "Thought 2: It is 62 metres long. Now Blue Heron (the ferry).\nAction 2: "


@pytest.mark.parametrize(
    ("form", "reply", "allowed"),
    [
        (react_form(2, "short", last=False), REACT + "Search[length of Blue Heron]", True),
        (react_form(2, "short", last=False), REACT + "Finish[Blue Heron (85 m)]", True),
        (react_form(2, "short", last=True), REACT + "Search[length of Blue Heron]", False),
        (react_form(2, "yes_no", last=True), REACT + "Finish[Yes]", True),
        (react_form(2, "yes_no", last=True), REACT + "Finish[Perhaps]", False),
        (react_form(2, "short", last=True), REACT + "Finish[-40]", True),
        (react_form(2, "short", last=True), REACT + "Finish[-]", False),
        (self_ask_form("short", first=False), "So the final answer is: -€40", True),
        (self_ask_form("short", first=False), "So the final answer is: .NET", True),
        (self_ask_form("short", first=True), "Yes.\nFollow up: How long is it?", True),
        (self_ask_form("short", first=True), "No.\nSo the final answer is: 72", True),
        (self_ask_form("short", first=True), "The answer is 72", False),
        (self_ask_form("yes_no", first=False), "So the final answer is: Unknown", True),
        (self_ask_form("short", first=False), "Follow up: When was it built?", True),
        (notes_form(2, "short"), "Note 1: It is ice.\nNote 2: It says 72.\nAnswer: 72", True),
        (notes_form(2, "yes_no"), "Note 1: It is ice.\nNote 2: It says so.\nAnswer: Yes", True),
        (notes_form(2, "short"), "Note 1: It is ice.\nAnswer: 72", False),
        (rewrite_form(), EXAMPLE_REWRITE, True),
        (rewrite_form(32, 32), EXAMPLE_REWRITE, True),
        (rewrite_form(2, 2), EXAMPLE_REWRITE, False),
        (rewrite_form(), EXAMPLE_REWRITE.replace("True", "Perhaps", 1), False),
    ],
)
def test_a_step_is_held_to_its_format(make_chat, form, reply: str, allowed: bool) -> None:
    vocabulary = make_chat().engine.vocabulary
    grammar = Grammar(vocabulary, form.grammar)
    fits = True
    for token in vocabulary.encode(reply):
        fits = fits and bool(grammar.allows(np.array([token]))[0])
        if fits:
            grammar.accept(token)
    grammar.close()
    assert fits is allowed
