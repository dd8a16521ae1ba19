"""What the operator of a server sets beside a method's options, and what of it a run may change."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from ragweave.graphs.method import Method
from ragweave.graphs.option_texts import read_option
from ragweave.nodes.options import Options

PREFIX = "RAGWEAVE_"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Models and passages of a run; the environment names them, and a run may change `search`."""

    model: str = "extractive"
    """The model that answers: extractive, openai:NAME, llamacpp:PATH, provider:NAME, or the folder
    of a trained generator."""
    proxy: str = ""
    """The model that drafts answers; empty: the answering model."""
    judge: str = ""
    """The model that judges what is known, or the folder of a trained judge; empty: the proxy."""
    rewriter: str = ""
    """The model that rewrites queries, or the folder of a trained rewriter; empty: the proxy."""
    filter_model: str = ""
    """The model that filters passages; empty: the answering model."""
    trained_filter: str = ""
    """Folder of a trained context filter, for methods that have one; empty: what `filter` names."""
    kb: str = ""
    """Folder of a knowledge base; empty: the articles that ragweave brings."""
    search: Literal["auto", "bm25", "dense", "hybrid"] = "auto"
    """How the knowledge base is searched."""


def studio_options(method: Method) -> Options:
    """Return a method's options with `Sources` beside them, both with the environment's values.

    `RAGWEAVE_MODEL`, `RAGWEAVE_KB`, `RAGWEAVE_K`, … set the default of the field of that name;
    an option that a method does not have is not read.

    Raises:
        UsageError: A value is out of its range.
    """
    kind = dataclasses.make_dataclass(
        method.options.__name__,
        [],
        bases=(method.options, Sources),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": method.summary, "__module__": method.options.__module__},
    )
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        text = os.environ.get(PREFIX + field.name.upper())
        if text is not None:
            texts = isinstance(field.default, str)
            values[field.name] = text if texts else read_option(text, hints[field.name])
    made: Options = kind(**values)
    return made
