"""Loading a folder of weights must run no code that came with it.

Weights are read as safetensors alone; pickles, Python files and configurations that name code are
refused before any library looks at the folder. Loaders still pass `trust_remote_code=False`,
`use_safetensors=True` and `local_files_only=True`.
"""

from __future__ import annotations

import json
from pathlib import Path

from ragweave.errors import UsageError

_CODE = (".py", ".pyc", ".so", ".pyd", ".dll", ".dylib")
_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".joblib", ".ckpt", ".npy")


def check_safe(folder: str | Path) -> None:
    """Check that nothing in a folder could run when it is loaded.

    Raises:
        UsageError: There is code, a pickle, a configuration that names code, or a link that leads
            out of the folder; the text names the file.
    """
    root = Path(folder)
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{root}: {name} is a link that leads out of the folder")
        if path.suffix.lower() in _CODE:
            raise UsageError(f"{root}: {name} is code, and a part may hold none")
        if path.suffix.lower() in _PICKLED:
            raise UsageError(f"{root}: {name} may be a pickle, which can run code: use safetensors")
        if path.suffix.lower() == ".json" and path.is_file() and _names_code(path):
            raise UsageError(f"{root}: {name} asks for code of its own (auto_map)")


def _names_code(path: Path) -> bool:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and "auto_map" in fields
