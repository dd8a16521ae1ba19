"""Whose prompts and settings a run has: ours, or those of the paper whose table it stands in.

A paper's profile sets two things. **Wording**: beside a template `NAME` may stand `NAME@PAPER`, in
the words that the paper prints (`wording_of`); where none stands, ours is asked. **Settings**: the
values of `SETTINGS`, the same for every method of the paper's tables, for each option that the
caller did not set; their temperature goes with every call. Our additions are off there: asking again,
second looks, forced forms.

Sources: BlendFilter, sections 4.1 and 4.7, appendices C, D and F; SlimPLM, section 4.3, appendices A
and B, and its released code; FILCO, section 4.1; Liu et al. 2024, sections 3.1 and 4; IRCoT, section
4.1 and the released base configurations; Chain-of-Note (version 2), appendices A.4 and A.5; SuRe,
released code; DOS RAG, released code, which fills a token budget whatever k is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

Paper = Literal[
    "blendfilter",
    "slimplm",
    "filco",
    "post_fusion",
    "ircot",
    "chain_of_note",
    "sure",
    "dos_rag",
]

Profile = Literal["ours", "strategyqa", "paper", Paper]
"""`ours`: our wording and each method's own settings. `strategyqa`: the same, in the form for
StrategyQA's Yes/No questions. `paper`: the method's own paper, where its prompts stand here. A
paper's name: as a row of that paper's tables."""

_PLAIN = {"ask_again": False, "second_look": False, "constrain": False}
"""What no paper has: our additions against replies that can't be read, switched off."""

SETTINGS: Mapping[Paper, Mapping[str, Any]] = MappingProxyType(
    {
        "blendfilter": {
            **_PLAIN,
            "k": 5,
            "shots": 3,
            "unknown": False,
            "reader": False,
            "sample_temperature": 0.0,
        },
        "slimplm": {
            **_PLAIN,
            "k": 10,
            "shots": 0,
            "unknown": False,
            "rounds": 3,
            "reader": True,
            "sample_temperature": 0.01,
            "top_p": 0.85,
        },
        "filco": {
            **_PLAIN,
            "k": 1,
            "unknown": False,
            "sample_temperature": 0.0,
            "prompt_tokens": 1024,
            "reply_tokens": 128,
        },
        "post_fusion": {**_PLAIN, "k": 5, "unknown": True, "sample_temperature": 0.0},
        "ircot": {**_PLAIN, "k": 6, "unknown": False, "sample_temperature": 0.0},
        "chain_of_note": {**_PLAIN, "k": 5, "unknown": False, "sample_temperature": 0.0},
        "sure": {**_PLAIN, "k": 10, "unknown": False, "sample_temperature": 0.0},
        "dos_rag": {**_PLAIN, "unknown": False, "sample_temperature": 0.0},
    }
)
"""Options by the paper whose tables they hold for; a method takes those that it has, and that can have
the value: `reader` is Self-Ask's."""

_SAMPLING = frozenset({"samples", "sample_temperature", "top_p"})


def settings_of(paper: Paper, given: frozenset[str]) -> dict[str, Any]:
    """Return the settings of a paper's tables that the caller did not set.

    Who sets one of `samples`, `sample_temperature` and `top_p` decides how answers are sampled.

    Args:
        paper: The paper.
        given: Names of the options that the caller set.
    """
    kept = given | _SAMPLING if given & _SAMPLING else given
    return {name: value for name, value in SETTINGS[paper].items() if name not in kept}
