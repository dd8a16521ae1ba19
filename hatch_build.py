"""Metadata that follows from the repository's address: the project's links, and a README whose links are absolute.

The address is one setting, `repository` in `pyproject.toml`. While it is empty, the package has no links and the README
stays as it is; `.ci/release.py` then refuses to release it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")


class RepositoryLinks(MetadataHookInterface):
    """Fills `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both from the address, for the version that is built."""
        root, address = Path(self.root), str(self.config["repository"]).rstrip("/")
        text, tag = (root / "README.md").read_text("utf-8"), f"v{metadata['version']}"

        def absolute(match: re.Match[str]) -> str:
            path, hash_, place = match[1].partition("#")
            if path.startswith("../../"):  # a page of the repository's host
                return f"]({address}/{path.removeprefix('../../')})"
            kind = "raw" if path.endswith((".svg", ".png")) else "tree" if (root / path).is_dir() else "blob"
            return f"]({address}/{kind}/{tag}/{path}{hash_}{place})"

        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": LINK.sub(absolute, text) if address else text,
        }
        pages = {"Documentation": f"tree/{tag}/docs", "Changelog": f"blob/{tag}/CHANGELOG.md", "Issues": "issues"}
        metadata["urls"] = (
            {"Repository": address, **{name: f"{address}/{page}" for name, page in pages.items()}} if address else {}
        )
