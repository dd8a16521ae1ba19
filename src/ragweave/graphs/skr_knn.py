"""SKR-KNN: retrieve if most of the nearest training questions needed it. One call.

Source: Wang et al. 2023 (Self-Knowledge Guided Retrieval Augmentation for Large Language Models),
as SlimPLM's baseline (section 4.3).
"""

from __future__ import annotations

from ragweave.graphs.fragments import PROMPTS, with_retrieval_decision
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.retrieval_decision import Library, SkrKnnOptions, neighbours_step


def build(parts: Parts[SkrKnnOptions]) -> CompiledGraph:
    """Build `skr_knn`: the neighbours decide, then one call answers.

    The training file is read here where the build names one, so that its errors show at once; its
    questions are embedded at the first run.
    """
    library = Library(parts.embeddings)
    if parts.options.training:
        library.index(parts.options)
    return with_retrieval_decision(
        parts, "skr_knn", "neighbours", neighbours_step(library, parts.options)
    )


METHOD = Method(
    name="skr_knn",
    summary="Retrieve where most of the nearest training questions needed it.",
    paper="Wang et al. 2023, SKR",
    when=(
        "Where you have training questions labelled with whether retrieval helped (`ragweave "
        "label needed`)."
    ),
    best="p",
    worst="4p",
    options=SkrKnnOptions,
    build=build,
    prompts=answer_prompts(*PROMPTS),
)
