"""`ragweave serve`: methods behind OpenAI's protocol, or as MCP tools. `ragweave new`: your own app, from a template."""

import re
import shutil
import socket
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from ragweave.cli import options
from ragweave.errors import UsageError, need

_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD]...", help="Methods to serve.  [default: concat_pf]")
    ] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="Serve one method as MCP tools, on standard input.")] = False,
    http: Annotated[bool, typer.Option("--http", help="With --mcp: by streamable HTTP under /mcp.")] = False,
    kb: options.Kb = options.DEFAULT_KB,
    model: options.Model = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    option: options.Option = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0: any free port.")] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(envvar="RAGWEAVE_API_KEYS", help="A bearer token that callers send. Repeatable."),
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Accept calls without a key from anyone.")] = False,
    origin: Annotated[list[str] | None, typer.Option(help="Origin of a page that may call (CORS). Repeatable.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight at once; more get 429.")] = 8,
) -> None:
    """Serve methods to any client of OpenAI's chat completions, or to agents (--mcp)."""
    names = methods or [options.DEFAULT_METHOD]
    if mcp and len(names) > 1:
        raise UsageError("--mcp serves one method")
    if http and not mcp:
        raise UsageError("--http needs --mcp")
    if mcp:
        need("ragweave serve --mcp", "mcp", "mcp", "uvicorn")
    else:
        need("ragweave serve", "serve", "fastapi", "uvicorn", "prometheus_client")
    keys = [key for text in api_key or () for key in re.split(r"[,\s]+", text)]
    if host not in _LOCAL and not keys and not no_key:
        raise UsageError(f"{host} can be reached from other machines: give --api-key, or --no-key to let anyone call")
    from ragweave.serving.guard import AccessLimits

    limits = AccessLimits(api_keys=keys, origins=origin or (), concurrency=concurrency)
    setup = options.Setup.open(names, kb, model, None, retriever, rerank, second_retriever, option)
    if not mcp:
        from ragweave.serving.openai_api import create_app

        app = create_app({name: setup.chat(name) for name in names}, limits, plain=setup.models["generator"])
        setup.show_notice()
        _run(app, host, port, f"{', '.join(names)} at {{}}/v1")
        return
    from ragweave.serving.mcp_server import create_server, http_app

    server = create_server(setup.graph(names[0]), setup.retriever)
    setup.show_notice()
    if http:
        _run(http_app(server, host=host, limits=limits), host, port, "ask and search at {}/mcp")
    else:
        server.run("stdio")


def _run(app: Any, host: str, port: int, what: str) -> None:
    """Serve an app until it is stopped; port 0 means any free port. `what` names what is served, with `{}` for the address.

    Raises:
        UsageError: The address is not available.
    """
    import uvicorn

    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    address = f"[{host}]" if ":" in host else host
    typer.echo(f"serving {what.format(f'http://{address}:{listening.getsockname()[1]}')}", err=True)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def new(folder: Annotated[Path, typer.Argument(help="The folder to create.")]) -> None:
    """Make an app: a chat page, a folder for documents, tests, and langgraph.json."""
    if folder.exists():
        raise UsageError(f"{folder} exists already: name a new folder")
    with resources.as_file(resources.files("ragweave") / "template") as template:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    typer.echo(f"{folder}: put files into {folder / 'documents'}, then:")
    typer.echo(f'  pip install "ragweave[serve,offline]" pytest\n  cd {folder} && python app.py')
