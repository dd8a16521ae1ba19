"""Packages of other people, made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def lay_package(site: Path, name: str, source: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """Lay a package out as an installer would: its module, and what it says of itself."""
    (site / f"{name}.py").write_text(source, "utf-8")
    info = site / f"{name}-0.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2\n")
    groups = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in listed.items())
        for group, listed in points.items()
    ]
    (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n", "utf-8")
