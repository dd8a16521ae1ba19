"""`ragweave index` and `ragweave kb`: build a knowledge base from files, and look after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli.runs import Ray
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.tools.knowledge import IndexReport, KnowledgeBase
    from ragweave.tools.knowledge.manifest import Progress


app = typer.Typer(
    help="Look after a knowledge base.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Look after a knowledge base."""


@app.command("check")
def check(
    kb: Annotated[str, typer.Argument(metavar="KB", help="The knowledge base: folder or address.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair it: rebuild both indexes from its passages.")
    ] = False,
) -> None:
    """Verify the counts, hashes and both indexes. Exits with 1 if anything is wrong.

    Indexed files that no longer exist are named, too; that is no fault of the index.
    """
    from ragweave.cli.screen import marked_up, progress_bar
    from ragweave.tools.knowledge import checking
    from ragweave.tools.stores import place_of
    from ragweave.tools.text.plain import plain

    folder = place_of(kb)
    found = checking.check(folder)
    for one in found:
        typer.echo(marked_up(one.text))
    if repair and found:
        with progress_bar():
            checking.repair(folder, found)
        found = checking.check(folder)
        for one in found:
            typer.echo(f"not repaired: {marked_up(one.text)}")
        if not found:
            typer.echo(f"{folder}: repaired")
    elif not found:
        typer.echo(f"{folder}: no problems found")
    if gone := checking.missing_files(folder):
        typer.echo(plain(_gone_line(gone)))
    if found:
        raise typer.Exit(1)


@app.command("drop")
def drop(
    kb: Annotated[str, typer.Argument(metavar="KB", help="The knowledge base's address.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask first.")] = False,
) -> None:
    """Delete a knowledge base from the store that it is in, with all its passages."""
    from ragweave.tools.knowledge.manifest import counted
    from ragweave.tools.knowledge.served_checking import drop_served
    from ragweave.tools.stores import Address, place_of

    place = place_of(kb)
    if not isinstance(place, Address):
        raise UsageError(f"{kb} is a folder: delete it as you would any other")
    if not yes:
        typer.confirm(f"Delete {place} with all its passages?", abort=True)
    typer.echo(f"{place}: deleted ({counted(drop_served(place), 'passage')})")


_SHOWN = 20
_NAMED = 5


def _gone_line(names: Sequence[str]) -> str:
    """Say which indexed files are gone, and what removes them."""
    number = len(names)
    are = (
        "1 source is of a file that is"
        if number == 1
        else f"{number} sources are of files that are"
    )
    more = f" and {number - _NAMED} more" if number > _NAMED else ""
    them = "it" if number == 1 else "them"
    return (
        f"{are} gone ({', '.join(names[:_NAMED])}{more}): `ragweave index --prune` removes {them}"
    )


def index(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files and folders: text, Markdown, HTML, PDF, CSV, JSON lines; with an extra, Word, "
            "PowerPoint, Excel, EPUB."
        ),
    ] = None,
    kb: Annotated[
        str,
        typer.Option(
            "--kb",
            metavar="KB",
            help="Folder of the knowledge base, or its address: pg:URL#NAME, qdrant:…, es:….",
        ),
    ] = "kb",
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Remove what is indexed of files that are gone, wherever they were."
        ),
    ] = False,
    fetch: Annotated[
        bool,
        typer.Option("--fetch", help="Read paths that are addresses (https://…) as web pages."),
    ] = False,
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private", help="With --fetch: follow redirects to private addresses too."
        ),
    ] = False,
    bundled: Annotated[
        bool, typer.Option("--bundled", help="Index the articles on RAG that come with ragweave.")
    ] = False,
    chunker: Annotated[
        str | None,
        typer.Option(
            help="Where passages begin and end: fixed, sentences, headings, recursive, markdown, "
            "token, semantic (fixed)."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of passage length: words, sentences or tokens (words).")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Units per passage (100).")] = None,
    overlap: Annotated[
        int | None, typer.Option(help="Units shared by neighbouring passages (0).")
    ] = None,
    html: Annotated[
        str | None,
        typer.Option(
            help="What of an HTML page is read: article, or page (article where trafilatura is "
            "installed)."
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the stemmer and stop words (english).")
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(
            help="Embedding model: auto, none, minilm, a local path or a hub name (auto)."
        ),
    ] = None,
    chroma_url: Annotated[
        str | None, typer.Option(help="Chroma server to keep the vectors in: http://host:port.")
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option(
            help="Text field of CSV/JSONL rows (text); for CSV and Excel also several, with commas. "
            "Without a column text, a row is its columns' lines."
        ),
    ] = None,
    id_field: Annotated[str | None, typer.Option(help="Id field of CSV/JSONL rows.")] = None,
    title_field: Annotated[str | None, typer.Option(help="Title field of CSV/JSONL rows.")] = None,
    ray: Ray = None,
) -> None:
    """Index files; run it again to index only what changed. Settings are fixed at the first run."""
    pages = _pages(paths or (), fetch)
    sources = [*(one for one in paths or () if one not in pages), *_bundled(bundled)]
    if not sources and not pages and not prune:
        raise UsageError("nothing to index: give files or folders, or use --bundled")
    given = {
        "chunker": chunker,
        "unit": unit,
        "size": size,
        "overlap": overlap,
        "html": html,
        "language": language,
        "embedding": embedding,
        "chroma_url": chroma_url,
        "text_field": text_field,
        "id_field": id_field,
        "title_field": title_field,
    }
    settings = {key: value for key, value in given.items() if value is not None}
    with _open_or_create(kb, settings, new=bool(sources or pages)) as base:
        with nullcontext() if ray is None else base.encoding_on_ray(ray):
            report = _with_bar(base, sources, pages, private=allow_private, prune=prune)
        _show(base, report)
        if sources or pages:
            _refuse_nothing(report)


def _bundled(wanted: bool) -> list[str]:
    if not wanted:
        return []
    from ragweave.corpus import corpus_path

    return [str(corpus_path())]


def _open_or_create(path: str, given: dict[str, Any], *, new: bool) -> KnowledgeBase:
    """Open a knowledge base, or create it.

    Args:
        path: Its folder or address.
        given: Settings; they must agree with those of an old one.
        new: Whether to create it where there is none.
    """
    from dataclasses import replace

    from ragweave.tools.knowledge import KnowledgeBase, Settings

    if given.get("embedding") == "none":
        given["embedding"] = None
    if new and not KnowledgeBase.exists(path):
        return KnowledgeBase.create(path, settings=Settings(**given))
    base = KnowledgeBase.open(path)
    if not given:
        return base
    if "embedding" in given:
        given |= {"query_prefix": None, "passage_prefix": None}  # as the model has them
    with base:
        settings = replace(base.settings, **given)
    return KnowledgeBase.open_or_create(path, settings=settings)


def _pages(paths: Sequence[str], wanted: bool) -> list[str]:
    """Return the paths that are addresses of web pages.

    Raises:
        UsageError: There are some, and fetching is not wanted.
    """
    from ragweave.tools.knowledge.web import clean_url, is_url

    found = [one for one in paths if is_url(one)]
    if found and not wanted:
        raise UsageError(f"{clean_url(found[0])}: a web page is only read with --fetch")
    for one in found:
        clean_url(one)
    return found


def _with_bar(
    base: KnowledgeBase, sources: list[str], pages: list[str], *, private: bool, prune: bool
) -> IndexReport:
    from ragweave.cli.screen import progress_bar

    with progress_bar() as bar:
        advance = _stages(bar)
        made = []
        if sources or prune:
            made = [base.index_paths(sources, progress=advance, prune=prune)]
        if pages:
            made += [base.index_pages(pages, allow_private=private, progress=advance)]
    return _joined(made)


def _joined(reports: Sequence[IndexReport]) -> IndexReport:
    """Return what several writes did together."""
    from dataclasses import replace

    counted = ("added", "changed", "removed", "unchanged", "embedded")
    sums = {name: sum(getattr(one, name) for one in reports) for name in counted}
    return replace(
        reports[-1],
        skipped=tuple(skip for one in reports for skip in one.skipped),
        gone=tuple(name for one in reports for name in one.gone),
        **sums,
    )


def _stages(bar: Any) -> Progress:
    tasks: dict[str, Any] = {}

    def advance(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total)
        bar.update(tasks[stage], completed=done, total=total)

    return advance


def _show(base: KnowledgeBase, report: IndexReport) -> None:
    from ragweave.cli.screen import marked_up, progress_console
    from ragweave.tools.text.plain import plain

    screen = progress_console()
    for skip in report.skipped[:_SHOWN]:
        screen.print(f"skipped {marked_up(str(skip))}", style="yellow", soft_wrap=True)
    more = len(report.skipped) - _SHOWN
    if more > 0:
        screen.print(f"… and {more} more skipped")
    kind = f"BM25 + {base.settings.embedding} vectors" if base.settings.embedding else "BM25 only"
    typer.echo(f"{base.path}: {report} ({kind})")
    if report.gone:
        typer.echo(plain(_gone_line(report.gone)))


def _refuse_nothing(report: IndexReport) -> None:
    """Raise UsageError where nothing that was named is in the index now."""
    done = report.added or report.changed or report.unchanged or report.removed
    if (report.skipped and not done) or not (report.passages or report.removed):
        raise UsageError(f"no passage was indexed: {_why_none(report)}")


def _why_none(report: IndexReport) -> str:
    if report.skipped:
        return "every file found was skipped, for the reasons above"
    return "the folders hold no file of a supported type"
