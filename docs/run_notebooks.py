"""Run the notebooks from top to bottom, and write them back with what they print.

    make notebooks          # or: RAGWEAVE_MODEL=llamacpp:model.gguf python docs/run_notebooks.py [NAME…]

Each runs in an empty folder. What says only where and when it ran is left out: paths, object addresses, progress bars.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"


def executed(path: Path, folder: Path) -> Any:
    """Return a notebook with its outputs, run in a folder."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=3600,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [cleaned(output, folder) for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def cleaned(output: Any, folder: Path) -> Any:
    """Return an output without the paths of the machine that made it."""
    texts = output.get("data", output)
    for kind, text in texts.items():
        if kind.startswith(("text", "image/svg")) and isinstance(text, str):
            short = text.replace(f"{folder}/", "").replace(str(Path(__file__).parents[1]), "…")
            texts[kind] = re.sub(r"0x[0-9a-f]{8,}", "0x…", short)
    output.get("metadata", {}).clear()
    return output


def main(names: list[str]) -> None:
    """Run the notebooks that are named, or all."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                notebook = executed(path, Path(folder).resolve())
            path.write_text(nbformat.writes(notebook) + "\n", "utf-8")
            sys.stderr.write(f"{path.name}: {path.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
