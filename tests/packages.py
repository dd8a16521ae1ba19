"""Packages of other people, made up."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragweave.registry import forget_packages


def lay_package(site: Path, name: str, source: str, points: Mapping[str, Mapping[str, str]]) -> Path:
    """Lay a package out in a folder as an installer would: its module, and what it says of itself; return the folder."""
    info = site / f"{name}-0.2.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(source, "utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2\n")
    groups = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in listed.items())
        for group, listed in points.items()
    ]
    (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n", "utf-8")
    return site


@contextmanager
def installed(site: Path) -> Iterator[Path]:
    """Put a folder on this process's path, so that its packages are found until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        forget_packages()
        yield site
    for name, module in [*sys.modules.items()]:
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(site):
            del sys.modules[name]
    forget_packages()
