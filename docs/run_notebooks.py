"""Run the notebooks from top to bottom, and write them back with what they print.

    make notebooks          # or: python docs/run_notebooks.py [NAME…]

Each runs in an empty folder, on the embedded model (the one on local models on `smollm2`). What
says only where and when it ran is left out: paths, object addresses, seconds, progress bars.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"
MACHINE = re.compile(r"^\w+ +(?:machine|gpu) .*\n", re.MULTILINE)
"""What `ragweave doctor` says of the machine."""
SECONDS = re.compile(r"\b\d+\.\d\d s$", re.MULTILINE)
MOST = 200_000
"""Bytes that a notebook with its outputs takes at most: it is read in a browser, and kept in git."""


def main(names: list[str]) -> None:
    """Run the notebooks that are named, or all."""
    import nbformat
    from jupyter_client.manager import start_new_kernel

    os.environ.update(RAGWEAVE_GGUF="", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    kernel, channel = start_new_kernel(kernel_name="python3", startup_timeout=300)
    with tempfile.TemporaryDirectory() as above:  # a kernel whose folder is gone can't go on
        try:
            for path in sorted(FOLDER.glob("*.ipynb")):
                if names and path.stem not in names:
                    continue
                folder = Path(above).resolve() / path.stem
                folder.mkdir()
                text = nbformat.writes(executed(path, folder, kernel)) + "\n"
                if len(text) > MOST:
                    raise SystemExit(f"{path.name}: {len(text):,} bytes with outputs, most {MOST:,}")
                path.write_text(text, "utf-8")
                sys.stderr.write(f"{path.name}: {len(text):,} bytes\n")
        finally:
            channel.stop_channels()
            kernel.shutdown_kernel(now=True)


def executed(path: Path, folder: Path, kernel: Any) -> Any:
    """Return a notebook with its outputs, run in `folder` and in a namespace of its own."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    begin = f"%reset -f\nimport os; os.chdir({str(folder)!r})\n%reset -f"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    client = NotebookClient(notebook, km=kernel, timeout=600, record_timing=False)
    client.execute(reset_kc=True)
    del notebook.cells[0]
    notebook.metadata.language_info = {"name": "python"}
    count = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        count += 1
        cell.metadata = {}
        cell.execution_count = count
        kept = [one for one in cell.outputs if one.get("name") != "stderr"]
        cell.outputs = [cleaned(one, folder, count) for one in joined(kept)]
    return notebook


def joined(outputs: list[Any]) -> list[Any]:
    """Return outputs with what was printed in one piece, as a reader sees it."""
    made: list[Any] = []
    for output in outputs:
        if made and output.output_type == made[-1].output_type == "stream":
            made[-1].text += output.text
        else:
            made.append(output)
    return made


def cleaned(output: Any, folder: Path, count: int) -> Any:
    """Return an output without what says where it was made."""
    import ragweave

    if "execution_count" in output:
        output.execution_count = count
    texts = output.get("data", output)
    for kind, text in texts.items():
        if kind.startswith(("text", "image/svg")) and isinstance(text, str):
            short = text.replace(f"{folder}/", "").replace(str(folder), ".")
            short = short.replace(str(Path(ragweave.__file__).parent), "ragweave")
            told = MACHINE.sub("", re.sub(r"0x[0-9a-f]{8,}", "0x…", short))
            texts[kind] = SECONDS.sub("… s", told)
    output.get("metadata", {}).clear()
    return output


if __name__ == "__main__":
    main(sys.argv[1:])
