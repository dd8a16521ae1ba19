"""Pages that are made from the package when the site is built, so that they never go stale."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from glossary import glossary_page
from methods import method_page, methods_page, picture


def on_config(config: Any) -> Any:
    """Put a page a method into the navigation."""
    from ragweave import METHODS

    listed = ["methods/index.md", *(f"methods/{one.name}.md" for one in METHODS.ours())]
    for section in config.nav:
        if "Methods" in section:
            section["Methods"] = listed
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and pictures."""
    from ragweave import METHODS

    made: dict[str, str | bytes] = {
        "glossary.md": glossary_page(),
        "methods/index.md": methods_page(),
    }
    for one in METHODS.ours():
        made[f"methods/{one.name}.md"] = method_page(one.name)
        made[f"methods/{one.name}.svg"] = picture(one.name)
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    made["assets/query_blending.png"] = (results / "query_blending.png").read_bytes()
    for plot in results.glob("real_models/methods-*-tokens.png"):
        made[f"assets/{plot.name}"] = plot.read_bytes()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files
