"""Files that commands write: whole or not at all, and one line where the disk refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ragweave.errors import UsageError
from ragweave.tools.files import write_atomic

_REFUSALS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EIO, errno.EEXIST),
    )
)


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, in the place of what was there, so that no half of it is left.

    A lone surrogate, which no encoding can write, becomes `?`. What is no regular file (a pipe,
    `/dev/stdout`) is written to as it stands.

    Raises:
        UsageError: The folder is missing, or the disk refuses.
    """
    data = text.encode("utf-8", "replace")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}")
    try:
        write_atomic(path, data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def refused(error: BaseException) -> str | None:
    """Return one line for what a disk or folder refused, or None for another error."""
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return None
    reason = error.strerror or str(error)
    return (
        f"{os.fsdecode(error.filename)}: {reason}" if error.filename else f"cannot write: {reason}"
    )
