from __future__ import annotations

from tests.scripted import ListRetriever, ScriptedChat

from ragweave.tools.bindings import bound_settings, unbound


def test_what_stands_behind_several_bindings() -> None:
    model = ScriptedChat()
    twice = model.bind(logprobs=True).with_config(tags=["a"]).bind(stop=["b"])
    assert unbound(twice) is model
    assert unbound(model) is model
    assert next(bound_settings(twice)) == {"logprobs": True, "stop": ["b"]}
    assert list(bound_settings(model)) == []


def test_a_retriever_too_and_what_is_no_runnable() -> None:
    retriever = ListRetriever(documents=[])
    assert unbound(retriever.with_config(tags=["a"])) is retriever
    assert unbound("text") == "text"
