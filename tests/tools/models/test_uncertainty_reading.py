"""Log-probabilities that a server writes in another form, or leaves out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from ragweave.errors import ModelError
from ragweave.tools.models.uncertainty import Gate, uncertainty


def reply(*places: Sequence[float]) -> AIMessage:
    """Return a reply with the probabilities of each place's candidates."""
    content = [
        {
            "token": "a",
            "logprob": math.log(place[0]),
            "top_logprobs": [{"token": "a", "logprob": math.log(one)} for one in place],
        }
        for place in places
    ]
    return AIMessage("Paris", response_metadata={"logprobs": {"content": content}})


@pytest.mark.parametrize("gate", ["margin", "entropy"])
def test_the_chosen_token_alone_is_no_measure(gate: Gate) -> None:
    with pytest.raises(
        ModelError, match=f"gate={gate} needs the candidates of each place, .*alone"
    ):
        uncertainty(reply([0.21], [0.999]), gate)


def test_a_place_without_a_rival_has_what_its_token_leaves() -> None:
    assert uncertainty(reply([0.5, 0.25], [0.8]), "margin") == pytest.approx((0.5 + 0.25) / 2)
    assert uncertainty(reply([0.5, 0.25], [0.2]), "margin") == pytest.approx((0.5 + 1.0) / 2)
    lone = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    assert uncertainty(reply([0.5, 0.5], [0.8]), "entropy") == pytest.approx(
        (math.log(2) + lone) / 2
    )


@pytest.mark.parametrize("gate", ["margin", "entropy"])
def test_tokens_that_nothing_rivals_are_certain(gate: Gate) -> None:
    assert uncertainty(reply([1.0], [1.0]), gate) == 0.0
    measured = uncertainty(reply([1.0], [0.999]), gate)
    assert measured is not None
    assert 0 < measured < 0.01


@given(st.floats(1e-40, 1.0), st.sampled_from(["margin", "entropy"]))
def test_a_token_alone_is_never_more_certain_than_beside_its_rival(p: float, gate: Gate) -> None:
    beside = [p, min(p, 1 - p)] if p < 1 else [p]
    whole = uncertainty(reply([0.6, 0.4], beside), gate)
    alone = uncertainty(reply([0.6, 0.4], [p]), gate)
    assert whole is not None
    assert alone == pytest.approx(whole)


@pytest.mark.parametrize("gate", ["margin", "entropy"])
@pytest.mark.parametrize("left_out", [{}, {"top_logprobs": []}, {"top_logprobs": None}])
def test_a_place_without_candidates_is_left_out_where_others_have_some(
    gate: Gate, left_out: dict[str, Any]
) -> None:
    whole = reply([0.6, 0.4], [0.9, 0.1])
    content = whole.response_metadata["logprobs"]["content"]
    end = {"token": "</s>", "logprob": -0.1, **left_out}
    longer = AIMessage("Paris", response_metadata={"logprobs": {"content": [*content, end]}})
    assert uncertainty(longer, gate) == uncertainty(whole, gate)
    alone = AIMessage("Paris", response_metadata={"logprobs": {"content": [end]}})
    with pytest.raises(ModelError, match=f"gate={gate} needs the candidates"):
        uncertainty(alone, gate)


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
