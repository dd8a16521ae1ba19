"""`ragweave serve` and `ragweave mcp`: methods behind OpenAI's protocol, and as tools of an agent."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
from contextlib import suppress
from typing import Annotated, Any

import typer

from ragweave.cli import options
from ragweave.errors import MissingExtraError, UsageError

Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0: a free one.")]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--api-key",
        envvar="RAGWEAVE_API_KEYS",
        help="A key that callers bring as a bearer token. Repeatable; the variable takes several, "
        "with spaces or commas between.",
    ),
]
OpenToAll = Annotated[
    bool, typer.Option("--no-key", help="Let anyone who reaches the address call, without a key.")
]
RequestBytes = Annotated[int, typer.Option(help="Most bytes of a request.")]
Concurrency = Annotated[
    int, typer.Option(help="Requests in flight at once; more are answered with 429 (mcp: 503).")
]

_LAST_PORT = 65_535
_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    methods: Annotated[
        list[str], typer.Argument(metavar="METHOD...", help="Methods; each is a model by its name.")
    ],
    kb: options.Kb = None,
    model: options.Model = "extractive",
    proxy: options.Proxy = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    option: options.OptionTexts = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    api_key: Keys = None,
    no_key: OpenToAll = False,
    origin: Annotated[
        list[str] | None, typer.Option(help="Origin of a web page that may call. Repeatable.")
    ] = None,
    request_bytes: RequestBytes = 1_000_000,
    concurrency: Concurrency = 8,
) -> None:
    """Serve methods behind OpenAI's chat completions, for any client that speaks them."""
    _needs("serve", "fastapi", "uvicorn", "openai", "prometheus_client")
    from ragweave.cli.ask import served_graph
    from ragweave.cli.conversation import conversation
    from ragweave.serving.openai_api import Limits, create_app

    api_key = _keys(api_key)
    _check_open(host, api_key, no_key)
    _check_numbers(port, request_bytes, concurrency)
    named = options.read_models(model, proxy, judge, rewriter, filter_model, option)
    found = options.open_retriever(kb, retriever, rerank, k)
    again = options.second_retriever(second_retriever, kb, methods)
    models, texts = options.load_cited(*named)
    limits = Limits(
        api_keys=api_key or (),
        origins=origin or (),
        request_bytes=request_bytes,
        concurrency=concurrency,
    )
    chats = {
        name: conversation(
            served_graph(name, {**models, **again}, k, texts, found, beside=methods), models
        )
        for name in methods
    }
    _run(create_app(chats, limits), host, port, f"{', '.join(chats)} at {{}}/v1")


def mcp(
    context: typer.Context,
    method: options.Method = "concat_pf",
    kb: options.Kb = None,
    model: options.Model = "extractive",
    proxy: options.Proxy = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    option: options.OptionTexts = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP under /mcp instead of stdio.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    api_key: Keys = None,
    no_key: OpenToAll = False,
    request_bytes: RequestBytes = 1_000_000,
    concurrency: Concurrency = 8,
) -> None:
    """Serve a method and its knowledge base as MCP tools, ask and search."""
    _needs("mcp", "mcp")
    from ragweave.cli.ask import served_graph
    from ragweave.serving.mcp_server import create_server, http_app

    api_key = _keys(api_key)
    if http:
        _check_open(host, api_key, no_key)
        _check_numbers(port, request_bytes, concurrency)
    else:
        _check_stdio(context)
    named = options.read_models(model, proxy, judge, rewriter, filter_model, option)
    found = options.open_retriever(kb, retriever, rerank, k)
    again = options.second_retriever(second_retriever, kb, [method])
    models, texts = options.load_cited(*named)
    server = create_server(served_graph(method, {**models, **again}, k, texts, found), found)
    if not http:
        server.run("stdio")
        return
    app = http_app(
        server,
        host=host,
        keys=api_key or (),
        request_bytes=request_bytes,
        concurrency=concurrency,
    )
    _run(app, host, port, "ask and search at {}/mcp")


def _keys(given: list[str] | None) -> list[str]:
    """Return the keys; none holds a comma (RFC 6750, section 2.1), so one parts two of them.

    What a comma parts may be empty; a key that is empty by itself is left for `Keys` to refuse.
    """
    texts = given or []
    keys = [key for text in texts for key in text.split(",") if key.strip() or "," not in text]
    return keys or [""][: len(texts)]


_OF_HTTP = ("host", "port", "api_key", "no_key", "request_bytes", "concurrency")
"""Parameters of `mcp` that stdio has no use for."""


def _check_stdio(context: typer.Context) -> None:
    """Refuse options that would do nothing; the environment may hold keys for another server.

    Raises:
        UsageError: An option of the HTTP server was given.
    """
    for one in context.command.params:
        source = context.get_parameter_source(str(one.name))
        if one.name in _OF_HTTP and source and source.name == "COMMANDLINE":
            raise UsageError(f"{max(one.opts, key=len)} goes with --http: stdio serves one agent")


def _check_open(host: str, keys: list[str] | None, no_key: bool) -> None:
    """Refuse to serve other machines without a key, unless that is asked for.

    Raises:
        UsageError: A key is empty, or the address is reachable from elsewhere and anyone could
            call.
    """
    from ragweave.serving.keys import Keys as CallersKeys

    CallersKeys(keys or ())
    if host not in _LOCAL and not keys and not no_key:
        raise UsageError(
            f"{host} can be reached from other machines: give --api-key, or --no-key to let "
            "anyone call"
        )


def _check_numbers(port: int, request_bytes: int, concurrency: int) -> None:
    """Check the numbers of a server.

    Raises:
        UsageError: The port is none, or a limit is below 1.
    """
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port must be from 0 to {_LAST_PORT}, not {port}")
    for name, value in (("--request-bytes", request_bytes), ("--concurrency", concurrency)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")


def _needs(extra: str, *modules: str) -> None:
    """Check that an extra's packages are there.

    Raises:
        MissingExtraError: One is not installed.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"ragweave {extra}", extra)


def _run(app: Any, host: str, port: int, what: str) -> None:
    """Serve an app until it is stopped.

    Args:
        app: The app.
        host: The address to listen on.
        port: The port; 0: a free one.
        what: What is served, with `{}` for the address.

    Raises:
        UsageError: The address cannot be listened on.
    """
    import uvicorn

    listening = listen(host, port)
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{listening[0].getsockname()[1]}"
    typer.echo(f"serving {what.format(address)}", err=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with suppress(KeyboardInterrupt):
        server.run(sockets=listening)


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host (`localhost` may have two).

    Args:
        host: A name or an address.
        port: The port; 0: a free one, the same for all.

    Raises:
        UsageError: There is no such host, or the port is in use or not allowed.
    """
    opened: list[socket.socket] = []
    missing: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in dict.fromkeys(found):
            try:
                opened.append(_listening(family, (place[0], port, *place[2:])))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                missing = error
            else:
                port = opened[-1].getsockname()[1]
        if missing is not None and not opened:
            raise missing
    except (OSError, UnicodeError) as error:
        for one in opened:
            one.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot listen on {host}, port {port}: {reason}") from error
    return opened


_NO_SUCH_ADDRESS = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""What a machine without IPv6 says of `localhost`'s second address."""


def _listening(family: int, place: tuple[Any, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(place)
        one.listen()
    except OSError:
        one.close()
        raise
    return one
