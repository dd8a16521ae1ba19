"""Graph retrieval without a language model: the best passages pass their score on over shared names.

A multi-hop question names the first passage and only describes the second: "When was the director of
Get Low born?". Word and vector search find the film. The director's passage shares no word with the
question, but a name with the film's passage. The score of a passage is its base score, the best being
1, plus the strength of its best path from another passage or from the question:

    path = seed² · gate · rarity · edge · (1 + rest)

- seed: the score of one of the first `SEEDS` passages, at most 1, once the names in the question are followed.
- gate: how many of the question's terms stand in the sentence with the name, from `FLOOR` to 1.
- rarity: the inverse document frequency of the name, as a share of the greatest.
- edge: 1 to passages about the name, `MENTION` to those that mention it; less where there are many.
- rest: the BM25 score of the question's terms that the first passage lacks, as a share of the best.

The first passage stays first. The best path counts, not the sum as in personalised PageRank: many weak
paths over common names would outweigh the one that answers. Two SQLite tables hold the graph; a query
reads the rows of about a hundred names.

Related: LinearRAG (arXiv 2510.10114), SPRIG (arXiv 2602.23372), HippoRAG 2 (arXiv 2502.14802).
"""

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document

from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.names import (
    COMMON,
    LONGEST,
    added_sentences,
    folded,
    names_in,
    names_of,
    runs,
    sentences,
    subjects,
    without_keys,
)
from ragweave.tools.knowledge.view import NamePassages, Pool, Scores, View
from ragweave.tools.retrieval.bm25_index import top_k

TABLES = """
CREATE TABLE names (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, passages INTEGER NOT NULL);
CREATE TABLE mentions (
    name INTEGER NOT NULL, about INTEGER NOT NULL, passage INTEGER NOT NULL,
    PRIMARY KEY (name, about, passage)) WITHOUT ROWID;
CREATE INDEX mentions_by_passage ON mentions (passage);
CREATE TRIGGER forget_names AFTER DELETE ON passages BEGIN
    UPDATE names SET passages = passages - 1 WHERE id IN (SELECT name FROM mentions WHERE passage = old.id);
    DELETE FROM names WHERE passages = 0 AND id IN (SELECT name FROM mentions WHERE passage = old.id);
    DELETE FROM mentions WHERE passage = old.id;
END;
"""
"""Which passage has which names, and whether it is about them; beside a table `passages` with an `id`."""
SEEDS = 3
"""Passages that pass their score on."""
FLOOR = 0.75
MENTION = 0.3
CROWDING = 0.25
"""A name that `n` passages have reaches each of them by `n ** -CROWDING`."""
ASKED = 0.6
"""The strength of the names in the question."""
OWN = 0.15
"""What a seed adds to its score, by the square of its base score, so that a seed that answers alone stays before those it leads to."""
MAX_PASSAGES = 300
"""A name that more passages have, and more than `MAX_SHARE` of them, is not followed."""
MAX_SHARE = 1 / 400
"""Among 23,034 passages .03 % cost 2 to 4 points of recall, .26 % none (`benchmarks/graph_retrieval.py --bounds`)."""


class Seed(NamedTuple):
    """A passage that passes its score on."""

    row: int
    score: float
    """Its score, at most 1."""
    passage: Document


class NamePath(NamedTuple):
    """How a passage was reached."""

    strength: float
    name: str
    """The name, as the passage or the question spells it."""
    seed: Seed | None
    """The passage that has it; None: the question has it."""


def add_names(db: sqlite3.Connection, passages: Iterable[tuple[int, str, Mapping[str, Any]]]) -> None:
    """Add the names of passages: row, text and metadata; the rows must be new."""
    db.execute("CREATE TEMP TABLE IF NOT EXISTS new_names (text TEXT, about INTEGER, passage INTEGER)")
    rows = ((name, about, row) for row, text, meta in passages for name, about in names_of(text, meta).items())
    db.executemany("INSERT INTO new_names VALUES (?, ?, ?)", rows)
    db.execute(
        "INSERT INTO names (text, passages) SELECT text, count(*) FROM new_names GROUP BY text "
        "ON CONFLICT (text) DO UPDATE SET passages = passages + excluded.passages"
    )
    db.execute(
        "INSERT INTO mentions SELECT n.id, f.about, f.passage FROM new_names f JOIN names n ON n.text = f.text "
        "ORDER BY 1, 2, 3"
    )
    db.execute("DELETE FROM new_names")


def most_passages(count: int) -> int:
    """Return how many of so many passages may have a name that is followed.

    Examples:
        >>> most_passages(20_000), most_passages(1_000_000)
        (300, 2500)
    """
    return max(MAX_PASSAGES, int(count * MAX_SHARE))


def along_names(
    view: View, query: str, pool: Pool, terms: Callable[[str], list[str]]
) -> tuple[Scores, dict[int, NamePath]]:
    """Return the scores with those of the best paths added, and the paths by row.

    The names in the question are followed first, so that a passage that it names may be a seed. "Who leads the country
    that the singer of *Hello Love* lives in?" ranks the song tenth by its words.

    Args:
        view: What has the names.
        query: The question.
        pool: The candidates, which the ends of the paths join.
        terms: The analyzer.
    """
    wanted = set(terms(query))
    first = pool.rows[top_k(pool.scores, 1)].tolist()
    answered = {
        term for doc in pool.documents(first).values() for term in terms(indexed_text(doc.page_content, doc.metadata))
    }
    rest = sorted(wanted - answered)
    passages = view.count()
    in_question, asked = _names_in_question(view, query, most_passages(passages))
    starts = {name: [NamePath(ASKED, spelt, None)] for name, spelt in in_question.items()}
    scores, _ = _raised(pool, _followed(asked, starts, passages), rest)
    best = {int(pool.rows[at]): min(float(scores[at]), 1.0) for at in top_k(scores, SEEDS)}
    seeds = [Seed(row, best[row], doc) for row, doc in pool.documents([*best]).items()]
    for seed in seeds:
        for name, path in _passed_on(seed, wanted, terms):
            if name not in in_question:
                starts.setdefault(name, []).append(path)
    known = {**asked, **view.named(starts.keys() - asked.keys(), most_passages(passages))}
    scores, paths = _raised(pool, _followed(known, starts, passages), rest)
    own = pool.places([*best])
    scores[own] += OWN * (pool.scores[own] / max(float(pool.scores.max(initial=0)), 1e-9)) ** 2
    scores[pool.places(first)] = np.nextafter(scores.max(initial=0), np.float32(np.inf))
    return scores, paths


def _raised(pool: Pool, paths: Mapping[int, NamePath], rest: list[str]) -> tuple[Scores, dict[int, NamePath]]:
    """Return the base scores, the best 1, with paths added; and the paths that end in the pool."""
    ends = pool.include(sorted(paths, key=lambda row: -paths[row].strength))
    places = pool.places(ends)
    strengths = np.fromiter((paths[row].strength for row in ends), np.float32) * (1 + pool.words(rest, ends))
    scores = pool.scores / max(float(pool.scores.max(initial=0)), 1e-9)
    scores[places] += strengths
    stronger = zip(ends, strengths.tolist(), strict=True)
    return scores, {row: paths[row]._replace(strength=strength) for row, strength in stronger}


def _passed_on(seed: Seed, wanted: set[str], terms: Callable[[str], list[str]]) -> Iterator[tuple[str, NamePath]]:
    """Yield the names in a passage."""
    text, metadata = seed.passage.page_content, seed.passage.metadata
    own = subjects(text, metadata)
    for sentence in (*sentences(without_keys(text, metadata)), *added_sentences(metadata)):
        shared = len(wanted.intersection(terms(sentence))) / max(len(wanted), 1)
        strength = seed.score**2 * (FLOOR + (1 - FLOOR) * shared)
        for name, spelt in (_plain_runs(sentence) | names_in(sentence)).items():
            if name not in own:
                yield name, NamePath(strength, spelt, seed)


def _plain_runs(sentence: str) -> dict[str, str]:
    """Return the runs of words that may be a name without capitals: common words neither begin nor end a run."""
    words = folded(sentence).split()
    plain = [word not in COMMON for word in words]
    return {run: run for start, end, run in runs(sentence) if plain[start] and plain[end - 1]}


def _names_in_question(view: View, query: str, most: int) -> tuple[dict[str, str], Mapping[str, NamePassages]]:
    """Return the known names in the question, the longest ones, with their spelling, and all known ones' passages."""
    spelt = names_in(query)
    candidates = {
        (start, end): run
        for start, end, run in runs(query, 1)
        if (end - start > 1 or run in spelt) and not COMMON.issuperset(run.split())
    }
    known = view.named({*candidates.values()}, most)
    names: dict[str, str] = {}
    at, words = 0, len(folded(query).split())
    while at < words:
        ends = [end for end in range(at + 1, min(at + LONGEST, words) + 1) if candidates.get((at, end)) in known]
        if ends:
            run = candidates[at, ends[-1]]
            names[run] = spelt.get(run, run)
        at = ends[-1] if ends else at + 1
    return names, known


def _followed(
    known: Mapping[str, NamePassages], starts: Mapping[str, list[NamePath]], passages: int
) -> dict[int, NamePath]:
    """Return the best path to each passage from the names given; none leads back to where it began."""
    highest = math.log(1 + passages)
    best: dict[int, NamePath] = {}
    for name, paths in starts.items():
        count, about, mention = known.get(name, (0, (), ()))
        if not 0 < count <= most_passages(passages):
            continue
        rarity = min(math.log(1 + passages / count) / highest, 1.0)
        edges = [(row, len(about) ** -CROWDING) for row in about]
        edges += [(row, MENTION * count**-CROWDING) for row in mention]
        for path in paths:
            for row, edge in edges:
                strength = path.strength * rarity * edge
                if (path.seed is None or path.seed.row != row) and (row not in best or best[row].strength < strength):
                    best[row] = path._replace(strength=strength)
    return best
