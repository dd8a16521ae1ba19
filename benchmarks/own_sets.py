"""Two-hop questions by template over documents that installed packages carry; nothing of them is copied here.

`stdlib`: classes of Python's standard library, each with its docstring and methods. The question names a class and
asks after its base class, which only the first passage names.
`sklearn`: sections of scikit-learn's docstrings. The question names an object and one of its parameters, and asks
after an option of the object that this parameter's description refers to.
`zones`: rows of two tables of tzdata. The question names a time zone and asks after its country, whose code joins them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from langchain_core.documents import Document

from passage_sets import Asked, PassageSet

QUESTIONS = 100
_MODULES = """argparse ast asyncio.events asyncio.protocols asyncio.transports bdb cmd code codecs collections
collections.abc concurrent.futures configparser contextlib csv ctypes datetime decimal difflib email.message
email.policy enum fractions ftplib functools graphlib gzip html.parser http.client http.cookiejar http.cookies
http.server imaplib importlib.abc importlib.machinery inspect io ipaddress json logging logging.handlers lzma mailbox
mimetypes multiprocessing.managers multiprocessing.pool numbers optparse pathlib pdb pickle plistlib poplib pprint
queue random reprlib sched selectors shelve smtplib socket socketserver sqlite3 ssl statistics string subprocess
symtable tarfile tempfile textwrap threading trace traceback types typing unittest urllib.error urllib.request
urllib.response uuid weakref wsgiref.handlers wsgiref.simple_server xml.dom.minidom xml.sax.handler xml.sax.saxutils
xmlrpc.client xmlrpc.server zipfile zoneinfo"""


def _sampled(questions: list[tuple[str, Asked]], most: int = 2) -> list[Asked]:
    """Return questions of a fixed order, at most `most` that end at the same place."""
    random.Random(7).shuffle(questions)
    counts: Counter[str] = Counter()
    sampled = []
    for end, asked in questions:
        counts[end] += 1
        if counts[end] <= most:
            sampled.append(asked)
    return sampled[:QUESTIONS]


def stdlib() -> PassageSet:
    """100 questions over the classes of the standard library."""
    classes = {_named(cls): cls for name in _MODULES.split() for cls in _classes(name)}
    documents = [
        Document(_described(cls), id=name, metadata={"title": name, "heading_path": []})
        for name, cls in classes.items()
    ]
    questions = []
    for name, cls in classes.items():
        bases = [base for base in map(_named, cls.__bases__) if base in classes]
        if len(cls.__bases__) == len(bases) == 1:
            question = f"Which methods does the base class of {name} define?"
            questions.append((bases[0], Asked(question, frozenset([name, bases[0]]))))
    return PassageSet(documents, _sampled(questions))


def _classes(module: str) -> Iterator[type]:
    loaded = importlib.import_module(module)
    for name, member in inspect.getmembers(loaded, inspect.isclass):
        if not name.startswith("_") and member.__module__.split(".")[0].strip("_") == module.split(".")[0].strip("_"):
            yield member


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _described(cls: type) -> str:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    methods = [name for name, value in vars(cls).items() if callable(value) and not name.startswith("_")]
    text = inspect.cleandoc(cls.__doc__ or "")[:1500]
    return f"class {cls.__name__}({bases})\n\n{text}\n\nMethods: {', '.join(methods) or 'none'}."


def sklearn() -> PassageSet:
    """100 questions over the sections of scikit-learn's docstrings."""
    objects = dict(_objects())
    short = {name.rpartition(".")[2]: name for name in objects}
    documents, parameters = [], {}
    for name, text in objects.items():
        sections = _sections(text)
        parameters[name] = dict(_options(sections.get("Parameters", "")))
        documents += [
            Document(body, id=f"{name}#{head}", metadata={"title": name, "heading_path": [head] if head else []})
            for head, body in sections.items()
            if body
        ]
    questions = []
    for name, options in parameters.items():
        for option, text in options.items():
            named = {short[word] for word in re.findall(r"\w*[a-z][A-Z_]\w*", text) if word in short} - {name}
            for other in named if len(named) == 1 else ():
                own = sorted(set(parameters[other]) - set(options))
                if own:
                    own_name = own[len(questions) % len(own)]
                    asked = f"Parameter {own_name} of the class or function named at {option} of {name}?"
                    support = frozenset([f"{name}#Parameters", f"{other}#Parameters"])
                    questions.append((other, Asked(asked, support)))
    return PassageSet(documents, _sampled(questions, 5))


def _objects() -> Iterator[tuple[str, str]]:
    """Yield the public classes and functions of scikit-learn with their docstrings."""
    import sklearn as package

    warnings.simplefilter("ignore")
    seen: set[Any] = set()
    for module in pkgutil.iter_modules(package.__path__, "sklearn."):
        if module.name.rpartition(".")[2].startswith("_") or module.name.endswith((".tests", ".conftest")):
            continue
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            member = vars(loaded).get(name)  # what is loaded on demand is experimental
            if callable(member) and member.__doc__ and member not in seen:
                seen.add(member)
                yield f"{module.name}.{name}", inspect.cleandoc(member.__doc__)


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring in numpydoc's form that say what there is."""
    pieces = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    chosen = {head: sections.get(head, "").strip() for head in ("Parameters", "Attributes", "Returns", "See Also")}
    return {"": re.sub(r"\s+", " ", pieces[0]), **chosen}


def _options(text: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"\n(?=\w)", text):
        head, _, body = block.partition("\n")
        if " : " in head:
            yield head.partition(" : ")[0].strip(), body


def zones() -> PassageSet:
    """100 questions over the rows of tzdata's zones and countries."""
    folder = files("tzdata") / "zoneinfo"
    countries = dict(_rows((folder / "iso3166.tab").read_text("utf-8"), 2))
    documents = [
        Document(f"code: {code}\nname: {name}", id=code, metadata={"title": "", "line": line})
        for line, (code, name) in enumerate(countries.items(), 2)
    ]
    questions = []
    for line, (code, place, zone, *_) in enumerate(_rows((folder / "zone.tab").read_text("utf-8"), 3), 2):
        text = f"zone: {zone}\ncoordinates: {place}\ncountry code: {code}"
        documents.append(Document(text, id=zone, metadata={"title": "", "line": line}))
        question = f"What is the name of the country in which the time zone {zone} lies?"
        questions.append((code, Asked(question, frozenset([zone, code]))))
    return PassageSet(documents, _sampled(questions))


def _rows(text: str, least: int) -> list[list[str]]:
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [row[:least] for row in rows if len(row) >= least]
