"""Replies held to a GBNF grammar.

Language: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
"""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.llamacpp.binding import bind, log
from ragweave.tools.models.llamacpp.vocabulary import Vocabulary

_ENTRY = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])


class Grammar:
    """The state of one reply under a grammar. Not safe under threads."""

    def __init__(self, vocabulary: Vocabulary, text: str) -> None:
        """Parse a grammar whose start rule is `root`.

        Raises:
            UsageError: The text is no valid grammar.
        """
        self._lib = bind()
        self._vocabulary = vocabulary
        check(text)
        mark = log().mark()
        with vocabulary.in_use():
            self._pointer = self._lib.llama_sampler_init_grammar(
                vocabulary.pointer, text.encode(), b"root"
            )
        if not self._pointer:
            raise UsageError(f"the grammar can't be read: {log().error(mark)}")
        self._free = weakref.finalize(self, self._lib.llama_sampler_free, self._pointer)

    def allows(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """Return, for each token of a 1-D array, whether the reply may go on with it."""
        entries = np.zeros(len(tokens), _ENTRY)
        entries["id"] = tokens
        array = self._lib.llama_token_data_array(
            data=entries.ctypes.data_as(ctypes.POINTER(self._lib.llama_token_data)),
            size=len(tokens),
            selected=-1,
            sorted=False,
        )
        self._lib.llama_sampler_apply(self._pointer, ctypes.byref(array))
        out: NDArray[np.bool_] = entries["logit"] == 0.0
        return out

    def accept(self, token: int) -> None:
        """Go on with a token that `allows` let pass; llama.cpp aborts on any other."""
        if not self._vocabulary.ends(token):
            self._lib.llama_sampler_accept(self._pointer, token)

    def close(self) -> None:
        """Free the grammar."""
        self._free()


def check(text: str) -> None:
    """Refuse what llama.cpp's parser can't tell apart from an empty grammar.

    Raises:
        UsageError: The grammar is empty, or holds a null character, which would cut it short.
    """
    if not text.strip():
        raise UsageError("the grammar is empty: leave it out, or give a rule 'root ::= …'")
    if "\0" in text:
        raise UsageError("the grammar holds a null character")


def schema_grammar(schema: Mapping[str, Any]) -> str:
    """Return the GBNF grammar of the JSON texts that a JSON schema allows.

    Raises:
        UsageError: The schema uses what can't be turned into a grammar.
    """
    bind()
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        return str(json_schema_to_gbnf(json.dumps(schema)))
    except (KeyError, TypeError, ValueError, AssertionError, RecursionError) as error:
        raise UsageError(f"no grammar for this JSON schema: {error}") from error


def refused() -> ModelError:
    """Return the error of a reply that its grammar can't let go on."""
    return ModelError("the grammar can't be satisfied: no token of this model may follow")
