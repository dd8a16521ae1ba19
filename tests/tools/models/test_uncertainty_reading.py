"""Log-probabilities that a server writes in another form are one clear line."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from ragweave.errors import ModelError
from ragweave.tools.models.uncertainty import uncertainty


@pytest.mark.parametrize(
    "content",
    [
        [{}],
        [5],
        ["ab"],
        [{"logprob": None}],
        [{"logprob": "low"}],
        [{"logprob": -1.0, "top_logprobs": [5]}],
        [{"logprob": -1.0, "top_logprobs": [{"logprob": {}}]}],
    ],
)
def test_nonsense_is_no_traceback(content: Any) -> None:
    message = AIMessage("Paris", response_metadata={"logprobs": {"content": content}})
    with pytest.raises(ModelError, match="cannot read the reply's log-probabilities"):
        uncertainty(message, "entropy")
