"""The passages that the suites ask about; nothing in them is true."""

from __future__ import annotations

from langchain_core.documents import Document

_TEXTS = (
    "The bridge at Alden was built by Ada Brenner in 1931. Its five arches are of grey granite.",
    "The river Sorre runs under the bridge at Alden. In spring it carries ice from the hills.",
    "Ada Brenner studied in Norhaven and wrote two books on stone arches.",
    "Norhaven has had a school of engineering since 1874.",
    "The town hall at Alden was designed by Karl Oster. It burned down in 1902.",
    "A ferry crossed the Sorre before there was a bridge, and it was the ferryman who rang a bell.",
    "Granite for many bridges came from the quarry at Veld. The quarry closed in 1950.",
    "The lighthouse of Norhaven was lit in 1891.",
)

CARDS = tuple(
    Document(page_content=text, id=f"doc{at}", metadata={"title": f"Card {at}"})
    for at, text in enumerate(_TEXTS)
)
"""Eight passages, of which the first answers "Who built the bridge at Alden?"."""
