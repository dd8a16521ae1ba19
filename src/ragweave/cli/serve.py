"""`ragweave serve`: methods behind OpenAI's protocol, or as MCP tools. `ragweave new`: your own app, from a template."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.errors import UsageError, need

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore
    from starlette.types import ASGIApp

    from ragweave.serving.keys import Account

_WORKER = "RAGWEAVE_WORKER"
"""The variable that tells a worker process what it serves."""


def serve(
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD]...", help="Methods to serve.  [default: concat_pf]")
    ] = None,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve a method, and research, as MCP tools on standard input.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="With --mcp: over streamable HTTP, at /mcp.")] = False,
    kb: options.Kb = options.DEFAULT_KB,
    model: options.Model = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    prefer: options.Prefer = "",
    second_retriever: options.SecondRetriever = "",
    option: options.Option = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes any free one.")] = 8000,
    api_key: Annotated[
        list[str] | None, typer.Option(envvar="RAGWEAVE_API_KEYS", help="A bearer token that callers send. Repeatable.")
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option("--keys", help="A YAML file of keys, each with what it may see and spend.")
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Accept calls without a key from anyone.")] = False,
    origin: Annotated[list[str] | None, typer.Option(help="Origin of a page that may call (CORS). Repeatable.")] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Requests answered at once by a process; more wait, then get 429.")
    ] = 8,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with its own models.")] = 1,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Show quotes on their pages, and nearby lines, under /v1/sources.")
    ] = False,
    threads: Annotated[
        Path | None, typer.Option(help="An SQLite file that keeps responses for 30 days, for previous_response_id.")
    ] = None,
) -> None:
    """Serve methods to any client of OpenAI's chat completions and responses, or to agents (--mcp)."""
    names = methods or [options.DEFAULT_METHOD]
    if mcp and [name.partition("[")[0] for name in names[1:]] not in ([], ["research"]):
        raise UsageError("--mcp serves one method, and research as a second one")
    if http and not mcp:
        raise UsageError("--http needs --mcp")
    if mcp and (pictures or threads):
        raise UsageError("--pictures and --threads are for OpenAI's protocol: leave out --mcp")
    modules = ("mcp", "mcp", "uvicorn") if mcp else ("serve", "fastapi", "uvicorn", "prometheus_client")
    need("ragweave serve --mcp" if mcp else "ragweave serve", *modules)
    from ragweave.serving.guard import LOCAL_HOSTS, is_local

    keys = [key for text in api_key or () for key in re.split(r"[,\s]+", text)]
    if keys_file and (keys or no_key or (mcp and not http)):
        raise UsageError("--keys is for HTTP, and goes with neither --api-key nor --no-key")
    if not (is_local(host) or keys or keys_file or no_key):
        why = f"{host} can be reached from other machines"
        raise UsageError(f"{why}: give --keys or --api-key, or --no-key to let anyone call")
    hosts = LOCAL_HOSTS if is_local(host) and not (keys or keys_file) else ()
    limits = {"api_keys": keys, "origins": origin or (), "hosts": hosts, "concurrency": concurrency}
    served: Any = (names, mcp, limits, str(keys_file or ""), pictures, str(threads or ""))
    opened = (names, kb, model, None, retriever, rerank, prefer, second_retriever, option)
    setup = options.Setup.open(*opened)
    if mcp and not http:
        from ragweave.serving.mcp_server import create_server

        setup.show_notice()
        create_server(setup.graph(names[0]), setup.retriever_of(names[0]), *map(setup.graph, names[1:])).run("stdio")
        return
    from ragweave.serving.server import free_address, run_server

    app = app_over(setup, *served)
    setup.show_notice()
    port, url = free_address(host, port)
    typer.echo(f"serving {', '.join(names)} at {url}/{'mcp' if mcp else 'v1'}", err=True)
    if workers == 1:
        run_server(app, host, port)
        return
    del app, setup  # they have shown that a worker can open everything
    with TemporaryDirectory() as metrics:
        os.environ |= {_WORKER: json.dumps([opened, served]), "PROMETHEUS_MULTIPROC_DIR": metrics}
        run_server(f"{__name__}:worker_app", host, port, workers)


def app_over(
    setup: options.Setup,
    names: Sequence[str],
    mcp: bool,
    limits: dict[str, Any],
    keys: str,
    pictures: bool,
    threads: str,
) -> ASGIApp:
    """Return the app that serves methods over a setup's models and retriever; `keys` and `threads` are files."""
    from ragweave.serving.guard import AccessLimits

    access, store = AccessLimits(**limits), _thread_store(threads) if threads else None

    def app_of(setup: options.Setup, account: Account | None = None, permitted: str = "") -> ASGIApp:
        graphs: dict[str, Any] = {name: (setup.graph if mcp else setup.chat)(name) for name in names}
        searched, plain = setup.retriever_of(names[0]), setup.models["generator"]
        if account:
            graphs = {name: account.recorded(name, graph) for name, graph in graphs.items()}
            searched, plain = account.recorded_search(searched), account.recorded("plain", plain)
        if mcp:
            from ragweave.serving.mcp_server import create_server, http_app

            method, *research = graphs.values()
            return http_app(create_server(method, searched, *research), access)
        from ragweave.serving.openai_api import create_app

        evidence = setup.evidence(names[0]) if pictures else None
        return create_app(graphs, access, plain, evidence, store, permitted)

    if not keys:
        return app_of(setup)
    from ragweave.serving.keys import Caller, KeyedApp
    from ragweave.tools.knowledge import open_knowledge_base
    from ragweave.tools.prices import check_priced

    def make(caller: Caller, account: Account) -> ASGIApp:
        for model in setup.models.values() if caller.limits.dollars else ():
            check_priced(model, f"the limit in dollars of {caller.name}")
        with open_knowledge_base(setup.kb) as base:
            counts = len(base.view(caller.condition())), len(base)
        typer.echo(f"key {caller.name} sees {counts[0]} of {counts[1]} passages", err=True)
        return app_of(setup.over(caller.condition()), account, str(caller.filter))

    return KeyedApp(Path(keys), make, access)


def _thread_store(file: str) -> BaseStore:
    """Open a file of kept responses; each is deleted 30 days after it was last read."""
    need("--threads", "sqlite", "langgraph.store.sqlite")
    import sqlite3

    from langgraph.store.sqlite import SqliteStore

    try:
        connection = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
        store = SqliteStore(connection, ttl={"default_ttl": 30 * 24 * 60, "refresh_on_read": True})
        store.setup()
    except sqlite3.Error as error:
        raise UsageError(f"--threads {file}: {error}") from error
    store.start_ttl_sweeper(60)
    return store


def worker_app() -> ASGIApp:
    """Return the app of a worker process."""
    opened, served = json.loads(os.environ[_WORKER])
    return app_over(options.Setup.open(*opened), *served)


def new(folder: Annotated[Path, typer.Argument(help="The folder to create.")]) -> None:
    """Make an app: a chat page, a folder for documents, tests, and langgraph.json."""
    if folder.exists():
        raise UsageError(f"{folder} exists already: name a new folder")
    with resources.as_file(resources.files("ragweave") / "template") as template:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    typer.echo(f"{folder}: put files into {folder / 'documents'}, then:")
    typer.echo(f'  pip install "ragweave[serve,offline]" pytest\n  cd {folder} && python app.py')
