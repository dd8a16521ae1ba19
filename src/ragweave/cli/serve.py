"""`ragweave serve`: methods behind OpenAI's protocol, or as MCP tools. `ragweave new`: your own app, from a template."""

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ragweave.cli import options
from ragweave.errors import UsageError, need

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_LOCAL = ("127.0.0.1", "localhost", "::1")
_WORKER = "RAGWEAVE_WORKER"
"""The variable by which a worker process learns what it serves."""


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
    concurrency: Annotated[
        int, typer.Option(min=1, help="Requests answered at once by a process; more wait, then get 429.")
    ] = 8,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with its own models.")] = 1,
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
    served = Served(
        names, mcp, kb, model, retriever, rerank, second_retriever, option, keys, origin or (), host, concurrency
    )
    setup = served.open()
    if mcp and not http:
        from ragweave.serving.mcp_server import create_server

        setup.show_notice()
        create_server(setup.graph(names[0]), setup.retriever_of(names[0])).run("stdio")
        return
    from ragweave.serving.server import free_address, run_server

    app = served.app(setup)
    setup.show_notice()
    port, url = free_address(host, port)
    typer.echo(f"serving {'ask and search' if mcp else ', '.join(names)} at {url}/{'mcp' if mcp else 'v1'}", err=True)
    if workers > 1:
        del app, setup  # they have shown that a worker can open everything
        with TemporaryDirectory() as metrics:
            os.environ |= {_WORKER: json.dumps(asdict(served)), "PROMETHEUS_MULTIPROC_DIR": metrics}
            run_server(f"{__name__}:worker_app", host, port, workers)
    else:
        run_server(app, host, port)


@dataclass(frozen=True)
class Served:
    """What a process serves, in plain values: a worker gets them from the process that starts it."""

    names: Sequence[str]
    mcp: bool
    kb: str
    model: Sequence[str] | None
    retriever: str
    rerank: str
    second_retriever: str
    option: Sequence[str] | None
    api_keys: Sequence[str]
    origins: Sequence[str]
    host: str
    concurrency: int

    def open(self) -> options.Setup:
        """Open the models and the knowledge base."""
        return options.Setup.open(
            self.names, self.kb, self.model, None, self.retriever, self.rerank, self.second_retriever, self.option
        )

    def app(self, setup: options.Setup) -> "ASGIApp":
        """Return the app over the retriever and the models of a setup."""
        from ragweave.serving.guard import LOCAL_HOSTS, AccessLimits

        local = self.host in _LOCAL and not self.api_keys
        limits = AccessLimits(
            api_keys=self.api_keys,
            origins=self.origins,
            hosts=LOCAL_HOSTS if local else (),
            concurrency=self.concurrency,
        )
        if self.mcp:
            from ragweave.serving.mcp_server import create_server, http_app

            server = create_server(setup.graph(self.names[0]), setup.retriever_of(self.names[0]))
            return http_app(server, host=self.host, limits=limits)
        from ragweave.serving.openai_api import create_app

        return create_app({name: setup.chat(name) for name in self.names}, limits, plain=setup.models["generator"])


def worker_app() -> "ASGIApp":
    """Return the app of a worker process."""
    served = Served(**json.loads(os.environ[_WORKER]))
    return served.app(served.open())


def new(folder: Annotated[Path, typer.Argument(help="The folder to create.")]) -> None:
    """Make an app: a chat page, a folder for documents, tests, and langgraph.json."""
    if folder.exists():
        raise UsageError(f"{folder} exists already: name a new folder")
    with resources.as_file(resources.files("ragweave") / "template") as template:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    typer.echo(f"{folder}: put files into {folder / 'documents'}, then:")
    typer.echo(f'  pip install "ragweave[serve,offline]" pytest\n  cd {folder} && python app.py')
