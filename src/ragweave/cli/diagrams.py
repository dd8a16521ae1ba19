"""The diagrams in the repository: written by `ragweave draw --all`, compared by `--check`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ragweave.cli.output import write_file
from ragweave.errors import UsageError
from ragweave.graphs.picture import drawable

README_METHOD = "concat_pf"
_BLOCK = re.compile(r"(?<=```mermaid\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


def diagrams(root: Path) -> dict[Path, str]:
    """Return every file that holds diagrams, as it should be.

    Args:
        root: The repository's folder: `docs/diagrams/METHOD.mmd` for each method, and the mermaid
            block of `README.md`.

    Raises:
        UsageError: The folder has no README with one mermaid block.
    """
    from ragweave.graphs import METHODS

    folder = root / "docs" / "diagrams"
    names = [method.name for method in METHODS.ours()]
    files = {folder / f"{name}.mmd": drawable(name).get_graph().draw_mermaid() for name in names}
    readme = root / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else ""
    if len(_BLOCK.findall(text)) != 1:
        raise UsageError(
            f"{readme} has no mermaid block to draw in: run `ragweave draw --all` in the "
            "repository of ragweave"
        )
    picture = files[folder / f"{README_METHOD}.mmd"].rstrip() + "\n"
    files[readme] = _BLOCK.sub(lambda _: picture, text)
    return files


def stale(root: Path, wanted: Mapping[Path, str] | None = None) -> list[Path]:
    """Return the files that are not as they should be, those too of methods that are gone.

    Args:
        root: The repository's folder.
        wanted: The files, as they should be; None: those that hold diagrams.
    """
    wanted = diagrams(root) if wanted is None else wanted
    changed = [path for path, text in wanted.items() if not _is(path, text)]
    return changed + [path for path in (root / "docs/diagrams").glob("*.mmd") if path not in wanted]


def write(root: Path, wanted: Mapping[Path, str] | None = None) -> list[Path]:
    """Bring every file up to date and return those that changed."""
    wanted = diagrams(root) if wanted is None else wanted
    changed = stale(root, wanted)
    (root / "docs" / "diagrams").mkdir(parents=True, exist_ok=True)
    for path in changed:
        if path in wanted:
            write_file(path, wanted[path])
        else:
            path.unlink()
    return changed


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text
