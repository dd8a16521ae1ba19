"""The keys that callers of a server bring."""

from __future__ import annotations

import pytest

from ragweave.errors import UsageError
from ragweave.serving.keys import Keys
from ragweave.serving.openai_api import Limits


@pytest.mark.parametrize("given", [[""], ["right", ""], [" "], ["\t\n"], "right"])
def test_keys_that_would_let_anyone_in_are_refused(given: list[str]) -> None:
    with pytest.raises(UsageError, match="API key"):
        Keys(given)
    with pytest.raises(UsageError, match="API key"):
        Limits(api_keys=given)


@pytest.mark.parametrize(
    "header", [b"", b"right", b"Bearer", b"Bearer ", b"Bearer wrong", b"Bearer right "]
)
def test_only_a_bearer_token_is_a_key(header: bytes) -> None:
    assert not Keys(["right", "also"]).admit(header)
    assert Keys([]).admit(header)


@pytest.mark.parametrize(
    "header", [b"bearer right", b"BEARER right", b"Bearer  right", b"bearer also"]
)
def test_the_scheme_is_bearer_in_any_case(header: bytes) -> None:
    assert Keys(["right", "also"]).admit(header)


@pytest.mark.parametrize(
    "header", [b"Basic right", b"bearerright", b"bearer RIGHT", b"right right"]
)
def test_no_other_scheme_brings_a_key(header: bytes) -> None:
    assert not Keys(["right", "also"]).admit(header)


def test_any_of_the_keys_will_do() -> None:
    keys = Keys(["right", "älso"])
    assert keys.admit(b"Bearer right")
    assert keys.admit("Bearer älso".encode())
