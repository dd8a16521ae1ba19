"""A writer in a process of its own, for tests that kill it or make it wait.

Usage: kb_writer.py KB DOCS LOG PAUSE
"""

from __future__ import annotations

import sys
from pathlib import Path

from kb_embeddings import BagEmbeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import KnowledgeBase


def main() -> int:
    base, docs, log, pause = sys.argv[1:]
    model = BagEmbeddings(log=Path(log), pause=float(pause))
    try:
        with KnowledgeBase.open(base, embeddings=model) as kb:
            kb.index_paths([docs])
    except KnowledgeBaseError as error:
        print(error)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
