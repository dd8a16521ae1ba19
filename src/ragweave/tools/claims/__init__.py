"""Claims (SlimPLM): reading judges' and rewriters' replies, ids of filters, judge labels."""

from ragweave.tools.claims.ids import parse_ids
from ragweave.tools.claims.judgement import check_theta, known_label, match_ratio, parse_judgement
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
]
