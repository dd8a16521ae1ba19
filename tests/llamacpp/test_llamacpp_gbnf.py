"""Grammars for verdicts and ids, held to by a real engine."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.llamacpp.gbnf import id_list, one_of

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
