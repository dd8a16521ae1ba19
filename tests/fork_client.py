"""Stands for a process that `fork_server.py` forks: passes on what it has, signals, and the end.

    python -I fork_client.py ADDRESS MODULE:FUNCTION ARGUMENT …

Where a variable that is read when Python or a package starts is another than the server's, or
another user calls, or nothing answers, Python is started anew instead.
"""

# ruff: noqa: PTH100, PTH104, PTH108, PTH109, PTH110, PTH123, PTH208
# (pathlib takes as long to import as all that is needed here)

import array
import json
import os
import resource
import signal
import socket
import sys
import time

AT_START = {
    *("PYTHONHOME", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "OMP_NUM_THREADS"),
    *("HF_HOME", "HF_HUB_CACHE", "HOME", "XDG_CACHE_HOME", "LANG", "LC_ALL", "LC_CTYPE"),
}
LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)


def at_start(variables: dict[str, str]) -> dict[str, str]:
    """Return the variables that are read when Python or a package starts."""
    return {name: value for name, value in variables.items() if name in AT_START}


def stand_in(address: str, target: str) -> list[str]:
    """Return the start of a command line that has a function called, `module:name`, by the server."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), address, target]


def own_python(target: str) -> list[str]:
    """Return the start of a command line that calls it in a Python of its own."""
    module, _, name = target.partition(":")
    return [sys.executable, "-P", "-c", f"from {module} import {name}; {name}()"]


def anew(target: str, args: list[str]) -> None:
    """Become a Python that does the same."""
    os.execv(sys.executable, [*own_python(target), *args])


def main() -> None:
    address, target, *args = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX)
    try:
        with open(f"{address}.json", encoding="utf-8") as file:
            expected = json.load(file)
        if expected != {"uid": os.getuid(), "env": at_start(dict(os.environ))}:
            anew(target, args)
        connect(server, address)
    except OSError:
        anew(target, args)
    taken = {server.fileno()}
    files = sorted(n for n in map(int, os.listdir("/proc/self/fd")) if n not in taken and is_open(n))
    request = {
        "target": target,
        "args": args,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "files": files,
        "limits": {str(one): resource.getrlimit(one) for one in LIMITS},
        "session": os.getsid(0) == os.getpid(),
    }
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
    data = json.dumps(request).encode() + b"\n"
    sent = server.sendmsg([data], rights)
    server.sendall(data[sent:])
    told = server.makefile("r")
    child = int(told.readline())
    named = f"{address}.{os.getpid()}"
    with open(f"{named}.new", "w", encoding="utf-8") as file:
        file.write(str(child))
    os.rename(f"{named}.new", named)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    for one in files:
        os.close(one)
    ended = told.readline()
    os.unlink(named)
    code = int(ended) if ended else 255
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def connect(server: socket.socket, address: str) -> None:
    """Connect, once the server listens."""
    for _ in range(1200):
        if os.path.exists(address):
            break
        time.sleep(0.05)
    server.connect(address)


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
