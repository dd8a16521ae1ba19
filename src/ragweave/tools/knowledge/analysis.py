"""Knowledge bases whose terms were made the way of an earlier version.

Their index is searched by that way, so that what was found is found; a write makes the index of a
folder anew, `kb check --repair` that of any.
"""

from __future__ import annotations

import logging
import shlex
from functools import lru_cache

from ragweave.tools.knowledge.manifest import Manifest
from ragweave.tools.retrieval.bm25 import ANALYSIS, analyzer_for

_LOGGER = logging.getLogger("ragweave.knowledge")


def outdated(manifest: Manifest, text: str) -> bool:
    """Return whether a text has other terms today than by the way of the index."""
    if manifest.analysis == ANALYSIS:
        return False
    today = analyzer_for(manifest.settings.language)
    return manifest.analyzer.terms(text) != today.terms(text)


def query_terms(manifest: Manifest, query: str, place: object) -> list[str]:
    """Return the terms to look for in an index; warn once where today's would be others."""
    if outdated(manifest, query):
        _warn(str(place))
    return manifest.analyzer.terms(query)


@lru_cache(maxsize=1000)
def _warn(place: str) -> None:
    _LOGGER.warning(
        "%s was indexed by an earlier version, which makes other terms of this question's words "
        "(their marks, ligatures): `ragweave kb check %s --repair` makes its word index anew",
        place,
        shlex.quote(place),
    )
