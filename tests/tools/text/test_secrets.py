"""Keys and passwords are hidden in specs and texts, and nothing else is."""

import pytest

from ragweave.tools.text.untrusted import redacted, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("openai:m?api_key=abc/+=&max_tokens=5", "openai:m?api_key=***&max_tokens=5"),
        ("openai:m?base_url=http://ada:pw@host/v1", "openai:m?base_url=http://***@host/v1"),
        ("pg:postgresql://ada:p@w@host/db#n", "pg:postgresql://***@host/db#n"),
        ("llamacpp:a/key.gguf?n_ctx=4096", "llamacpp:a/key.gguf?n_ctx=4096"),
        ("GET https://host/v1?x=1&hf_token=abc: 401", "GET https://host/v1?x=1&hf_token=***"),
        ("Authorization: Bearer abcdef123", "Authorization: Bearer ***"),
        ("Incorrect key: sk-abcdefgh", "Incorrect key: ***"),
    ],
)
def test_what_names_a_secret_loses_its_value(text: str, shown: str) -> None:
    assert redacted(text).startswith(shown)


def test_keys_of_the_environment_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "opensesame")
    monkeypatch.setenv("ACME_MAX_TOKENS", "12345678")
    assert without_secrets("opensesame 12345678") == "*** 12345678"
