"""How a draft hedges: it refuses, denies, asks back, stays vague, warns, or names its date."""

from __future__ import annotations

import re

from ragweave.tools.parts.judge.values import flag, log_count
from ragweave.tools.parts.judge.words import first_sentence

_PHRASES = {
    "refusal": r"i apologi[sz]e|i'm sorry|i am sorry|i cannot|i can't|i am unable|i'm unable"
    r"|i'm not able|i am not able|i could(?: not|n't)|i do(?: not|n't) have"
    r"|i'm not (?:sure|aware|familiar)|i am not (?:sure|aware|familiar)"
    r"|as an? (?:ai|language model)|i don't know|not appropriate|my knowledge",
    "denial": r"there (?:is|are|was|were) no\b|there (?:is|was)n't"
    r"|no (?:record|evidence|information|such|known|specific|definitive)|did not"
    r"|does not (?:have|exist|appear)|never (?:been|had|aired|won|played|released)|not a real"
    r"|fictional (?:character )?(?:and|so)|neither"
    r"|is not (?:a|an|the|possible|clear|known|accurate)|has not (?:been|yet)|have not"
    r"|not (?:aware|familiar|yet)|none of|incorrect|mistak|misunderst|confus|actually",
    "asks_back": r"(?:please|could you|can you) (?:provide|clarify|specify|let me)"
    r"|more (?:context|information|details)|feel free to ask|additional context|rephrase",
    "vague": r"\bcan vary|\bvar(?:y|ies)\b|depend(?:s|ing)? (?:on|upon)|several|various"
    r"|many (?:people|different|actors|artists)|is (?:a )?(?:complex|difficult|subjective)"
    r"|some of the|a number of|numerous|may (?:be|have)|might|possibl[ey]|likely|approximately"
    r"|around|estimated|believed|generally|typically|it is unclear|not clear|debat|disput",
    "caveat": r"it(?:'s| is) (?:worth|important) (?:noting|to note)|please note|however",
    "as_of": r"as of (?:my|20\d\d|today|the)|knowledge cut|up to date|last update|currently"
    r"|most recent",
}
_HEDGES = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _PHRASES.values())

NAMES = tuple(f"{part}.{name}" for name in _PHRASES for part in ("draft", "first"))
"""Names of `hedging`, in order."""


def hedging(draft: str) -> list[float]:
    """Return for each way to hedge how often the draft does, and whether its first sentence does."""
    first = first_sentence(draft)
    return [
        value
        for pattern in _HEDGES
        for value in (log_count(pattern.findall(draft)), flag(pattern.search(first)))
    ]
