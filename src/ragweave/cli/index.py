"""`ragweave index`: build a knowledge base from files, folders, web pages and loaders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.cli.screen import console, marked_up, progress_bar, progress_console, table_of
from ragweave.errors import UsageError, one_line_of

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from ragweave.tools.knowledge import FileLimits, IndexReport, KnowledgeBase, ServedKnowledgeBase
    from ragweave.tools.knowledge.settings import Progress

_SHOWN = 20


def index(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Files and folders; `ragweave methods --kind file_types` lists the types of files."),
    ] = None,
    kb: options.Kb = options.DEFAULT_KB,
    fetch: Annotated[bool, typer.Option("--fetch", help="Fetch paths that are web addresses (https://…).")] = False,
    bundled: Annotated[bool, typer.Option("--bundled", help="Index ragweave's own articles on RAG.")] = False,
    loader: Annotated[
        str | None,
        typer.Option(
            help="Read each path (or query) with a LangChain document loader by its import path, "
            "such as langchain_community.document_loaders:WikipediaLoader?load_max_docs=2."
        ),
    ] = None,
    chunker: Annotated[
        str | None, typer.Option(help="How documents are cut: see `methods --kind chunkers`.  [default: sentences]")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="words, sentences or tokens.  [default: words]")] = None,
    size: Annotated[int | None, typer.Option(help="Units per passage.  [default: 100]")] = None,
    overlap: Annotated[int | None, typer.Option(help="Units that neighbouring passages share.  [default: 0]")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the words.  [default: english]")] = None,
    embedding: Annotated[
        str | None, typer.Option(help="auto, none, minilm, fastembed:NAME, a path or a hub name.  [default: auto]")
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option(
            help="Field that holds the text of a CSV or JSONL row; for CSV and Excel also several, separated by commas. "
            "Without it, a row becomes `column: value` lines.  [default: text]"
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(
            help="Field that holds the id of a CSV or JSONL row; by default `id`, if there is a field `text`."
        ),
    ] = None,
    title_field: Annotated[str | None, typer.Option(help="Field that holds the title of a CSV or JSONL row.")] = None,
    file_dates: Annotated[
        bool, typer.Option("--file-dates", help="Take the file's last change as its date if it has no other.")
    ] = False,
    enrich: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Ask a chat model about each passage, once, for names and facts to index."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray", metavar="[ADDRESS]", help="Read and embed files on Ray: auto, HOST:PORT; alone: this machine."
        ),
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait while another process writes to KB.")] = 60,
    max_file_seconds: Annotated[
        float, typer.Option(help="Seconds to read a file, or each MiB of a large one; a slower file is skipped.")
    ] = 120,
    max_file_memory: Annotated[
        int, typer.Option(help="MiB of memory to read a file; a file that needs more is skipped.")
    ] = 4096,
    fields: Annotated[bool, typer.Option("--fields", help="Show the fields that `ask --filter` can test.")] = False,
) -> None:
    """Index files. Run it again to index only what changed. The settings of the first run stay, except row fields."""
    values = {"chunker": chunker, "unit": unit, "size": size, "overlap": overlap, "language": language}
    values |= {"embedding": embedding, "text_field": text_field, "id_field": id_field, "title_field": title_field}
    values["file_dates"] = file_dates or None
    settings = {key: value for key, value in values.items() if value is not None}
    pages = [] if loader else _pages(paths or (), fetch)
    sources = [path for path in paths or () if path not in pages]
    if bundled:
        from ragweave.corpus import corpus_path

        sources.append(str(corpus_path()))
    if fields and not sources and not pages:
        from ragweave.tools.knowledge import open_knowledge_base

        with open_knowledge_base(kb) as existing:
            _show_fields(existing)
        return
    if not sources and not pages:
        raise UsageError("nothing to index: give files or folders, or use --bundled")
    cluster = _cluster(ray, kb, others=bool(pages or loader or enrich))
    from ragweave.tools.knowledge import FileLimits

    limits = FileLimits(max_seconds=max_file_seconds, max_memory=max_file_memory)
    with _opened(kb, settings, [] if loader else sources) as base:
        base.wait = wait
        if cluster is None:
            reports = _with_bar(base, sources, pages, loader, limits, enrich)
        else:
            reports = [_on_ray(kb, sources, cluster, limits)]
        for report in reports:
            _show(base, report)
        if fields:
            _show_fields(base)
    _check_indexed(reports)


def _show_fields(base: KnowledgeBase | ServedKnowledgeBase) -> None:
    """Print each field with the kind of its values, how many passages have one, and the range or the commonest values."""
    rows = []
    for field in base.fields():
        between = ", " if field.kind in ("text", "flag") else " … "
        examples = between.join(str(value)[:40] for value in field.examples)
        rows.append([field.name, field.kind, str(field.passages), str(field.values), examples])
    heads = ["field", "kind", "passages", "values", "such as"]
    console().print(table_of(heads, rows, numbers=("passages", "values")))


def _opened(path: str, settings: dict[str, Any], sources: Sequence[str]) -> KnowledgeBase | ServedKnowledgeBase:
    """Open a knowledge base, which must have these settings, or create it if the files and folders to index exist."""
    from ragweave.tools.knowledge import KnowledgeBase, ServedKnowledgeBase
    from ragweave.tools.knowledge.servers import is_address

    if settings.get("embedding") == "none":
        settings["embedding"] = None
    if is_address(path):
        return ServedKnowledgeBase(path, settings=settings)
    missing = next((source for source in sources if source.strip() and not os.path.lexists(source)), None)
    if missing is not None and not KnowledgeBase.exists(path):
        raise UsageError(f"no such file or folder: {missing}")
    return KnowledgeBase.open_or_create(path, settings=settings)


def _pages(paths: Sequence[str], wanted: bool) -> list[str]:
    """Return the paths that are addresses of web pages; raise `UsageError` unless they may be fetched."""
    from ragweave.tools.knowledge.ingest import clean_url

    urls = [path for path in paths if path.startswith(("http://", "https://"))]
    if urls and not wanted:
        raise UsageError(f"{clean_url(urls[0])}: web pages are read only with --fetch")
    return urls


def _with_bar(
    base: KnowledgeBase | ServedKnowledgeBase,
    sources: list[str],
    pages: list[str],
    loader: str | None,
    limits: FileLimits,
    enrich: str | None,
) -> list[IndexReport]:
    """Index, and return what each write did."""
    with progress_bar() as bar:
        advance = _stages(bar)
        if loader is not None:
            return [base.index_documents(_loaded(loader, source), source, advance, enrich=enrich) for source in sources]
        reports = [base.index_paths(sources, advance, limits, enrich=enrich)] if sources else []
        return [*reports, *([base.index_pages(pages, advance, limits, enrich=enrich)] if pages else [])]


def _cluster(address: str | None, kb: str, *, others: bool) -> Any:
    """Connect to a Ray cluster, if there is an address; raise `UsageError` unless it can do all that is asked for."""
    if address is None:
        return None
    if others:
        raise UsageError("--ray reads files: leave out web pages, --loader and --enrich")
    if not kb.startswith(("lance:", "pg:")):
        raise UsageError("--ray needs --kb lance:… or pg:…, to which many hosts can write")
    from ragweave.tools.cluster import connected

    return connected("Indexing on Ray", address)


def _on_ray(kb: str, sources: list[str], cluster: Any, limits: FileLimits) -> IndexReport:
    from ragweave.tools.knowledge.servers import index_on_ray

    with progress_bar() as bar:
        return index_on_ray(kb, sources, cluster, limits, _stages(bar))


def _loaded(loader: str, argument: str) -> Iterator[Document]:
    from ragweave.tools.imported import imported

    documents = imported(loader, argument)
    if not hasattr(documents, "lazy_load"):
        raise UsageError(f"{loader} is not a LangChain document loader but a {type(documents).__name__}")
    try:
        yield from documents.lazy_load()
    except Exception as error:  # each loader raises its own errors
        raise UsageError(
            f"{argument} cannot be read with {loader} ({type(error).__name__}: {one_line_of(error)})"
        ) from error


def _stages(bar: Any) -> Progress:
    tasks: dict[str, Any] = {}

    def advance(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total)
        bar.update(tasks[stage], completed=done, total=total)

    return advance


def _show(base: KnowledgeBase | ServedKnowledgeBase, report: IndexReport) -> None:
    screen = progress_console()
    for notice in report.notices[:_SHOWN]:
        verb = "read in part" if notice.status == "in part" else notice.status
        screen.print(f"{verb}: {marked_up(str(notice))}", style="yellow", soft_wrap=True)
    more = len(report.notices) - _SHOWN
    if more > 0:
        screen.print(f"… and {more} more")
    kind = f"vectors by {base.settings.embedding}" if base.settings.embedding else "no vectors"
    typer.echo(f"{base.path}: {report} ({kind})")
    if any(report.dates):
        dates = sorted(report.dates.items(), reverse=True)
        counts = [f"{count} from {origin}" if origin else f"{count} without one" for origin, count in dates]
        typer.echo(f"dates: {', '.join(counts)}")


def _check_indexed(reports: Sequence[IndexReport]) -> None:
    """Raise `UsageError` if no named source is in the index now."""
    removed = any(report.removed for report in reports)
    done = removed or any(report.added or report.changed or report.unchanged for report in reports)
    notices = any(report.notices for report in reports)
    if (notices and not done) or not (reports[-1].passages or removed):
        why = "every file found was skipped, for the reasons above" if notices else "no file has a supported type"
        raise UsageError(f"no passage was indexed: {why}")
