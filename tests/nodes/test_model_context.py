"""How many tokens a prompt may have."""

from __future__ import annotations

import pytest
from langchain_core.language_models import ModelProfile
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ragweave.nodes.model_context import budget_of
from ragweave.nodes.options import Options
from ragweave.tools.models.thinking import THINKING_TOKENS, note_thinking


@pytest.mark.parametrize(("context", "room"), [(4096, 1024), (65_536, THINKING_TOKENS)])
def test_passages_leave_a_model_that_thinks_room_for_that(context: int, room: int) -> None:
    profile = ModelProfile(max_input_tokens=context)
    model = ChatOpenAI(model="m", api_key=SecretStr("k"), profile=profile)
    options = Options(reply_tokens=512)
    assert budget_of(model, options) == context - 512
    note_thinking(model)
    assert budget_of(model, options) == context - 512 - room
    assert budget_of(model, Options(prompt_tokens=100)) == 100
