"""The model card for people: `README.md` in a part's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ragweave.tools.parts import ModelCard

_INNER = "out_of_fold"
_DOES = {
    "judge": "says whether a draft answer is known well enough to go without retrieval "
    "(SlimPLM, section 3.2)",
    "rewriter": "turns a draft answer into claims and search queries (SlimPLM, section 3.3)",
    "filter": "keeps the sentences of passages that help to answer a question (FILCO, M_ctx)",
    "generator": "answers a question from filtered context (FILCO, M_gen)",
}
_USE = {
    "judge": "ragweave ask … --method slimplm --option judge={folder}",
    "rewriter": "ragweave ask … --method slimplm --option rewriter={folder}",
    "filter": "ragweave ask … --method filco --option filter={folder}",
    "generator": "ragweave ask … --method filco --option generator={folder}",
}


def readme(card: ModelCard) -> str:
    """Return the card as Markdown, with the front matter that model hubs read."""
    return "\n".join(_lines(card))


def _lines(card: ModelCard) -> Iterator[str]:
    yield "---"
    yield f"base_model: {json.dumps(card.base)}"
    yield "library_name: ragweave"
    yield f"tags: [ragweave, {card.role}, {card.kind}]"
    yield "---"
    yield f"# A {card.role} for ragweave ({card.kind})"
    yield ""
    yield f"It {_DOES[card.role]}. Trained from `{card.base}` on {card.created}."
    yield ""
    yield "```"
    yield _USE[card.role].format(folder="THIS_FOLDER")
    yield "```"
    if card.threshold is not None:
        yield ""
        source = f", chosen on {card.threshold_from}" if card.threshold_from else ""
        yield f"Threshold: {card.threshold:.4f}{source}."
    inner = {name: one for name, one in card.metrics.items() if name.startswith(_INNER)}
    outer = {name: one for name, one in card.metrics.items() if name not in inner}
    titles = {
        "Measured on held-out rows": outer,
        "Measured on training rows, out of fold": inner,
        "Data": card.data,
        "Settings": card.settings,
        "Versions": card.versions,
    }
    for title, values in titles.items():
        if values:
            yield f"\n## {title}\n"
            yield "| | |"
            yield "|---|---|"
            yield from (f"| {name} | {value} |" for name, value in _flat(values))
    yield ""


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        label = f"{before}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{label}: ")
        elif isinstance(value, list):
            for at, one in enumerate(value, start=1):
                inner = one if isinstance(one, Mapping) else {"": one}
                yield from _flat(inner, f"{label} {at}: ")
        else:
            yield label, _shown(value)


def _shown(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
