"""Claims (SlimPLM): reading judges' and rewriters' replies, ids of filters, judge labels."""

from ragweave.tools.claims.ids import parse_ids
from ragweave.tools.claims.judgement import (
    RELEASED,
    Aliases,
    check_aliases,
    check_theta,
    gold_groups,
    is_released,
    known_label,
    made_from,
    match_ratio,
    names_apart,
    only_yes_or_no,
    parse_judgement,
)
from ragweave.tools.claims.rewrite import (
    MAX_RECORDS,
    ClaimQuery,
    QuestionQuery,
    Rewrite,
    parse_claims,
    parse_rewrite,
)
from ragweave.tools.claims.values import MAX_CHARACTERS, MAX_WORDS

__all__ = [
    # replies
    "parse_judgement",
    "parse_rewrite",
    "parse_claims",
    "parse_ids",
    # records
    "Rewrite",
    "ClaimQuery",
    "QuestionQuery",
    # limits
    "MAX_RECORDS",
    "MAX_WORDS",
    "MAX_CHARACTERS",
    # labels
    "match_ratio",
    "known_label",
    "check_theta",
    # gold answers of rows
    "Aliases",
    "check_aliases",
    "names_apart",
    "gold_groups",
    "only_yes_or_no",
    "made_from",
    "is_released",
    "RELEASED",
]
