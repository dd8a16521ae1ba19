import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from tests.tools.knowledge.loaders.made import passages, read

from ragweave.errors import UsageError
from ragweave.state.passages import place_at
from ragweave.tools.knowledge.chunking import CHUNKERS, Loaded, Table

TEXT = "# A\n\nOne two three. Four five six.\n\n## B\n\n" + "Seven eight nine ten. " * 30


class CatsAndDogs(Embeddings):
    """Counts cats and dogs."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [text.count("cat") + 1e-9, text.count("dog") + 1e-9]


@pytest.mark.parametrize("name", ["fixed", "sentences", "headings", "recursive", "markdown", "token", "semantic"])
@pytest.mark.parametrize("overlap", [0, 6])
def test_every_chunker_is_verbatim_and_complete(name, overlap):
    (loaded,), _ = read("a.md", TEXT)
    cut = passages(loaded, CatsAndDogs(), chunker=name, size=20, overlap=overlap)
    assert len(cut) > 3 and name in CHUNKERS
    covered = set()
    for each in cut:
        covered.update(range(each.metadata["start"], each.metadata["end"]))
        assert len(each.text.split()) <= 20
    left = "".join(sign for at, sign in enumerate(loaded.text) if at not in covered)
    assert left.split() in ([], ["#", "A"])
    starts = [each.metadata["start"] for each in cut]
    assert starts == sorted(set(starts))


def test_semantic_cuts_where_the_subject_changes():
    text = "A cat sat. The cat ate. A cat slept. A dog ran. The dog dug. A dog barked."
    first, second = passages(Loaded(text), CatsAndDogs(), chunker="semantic")
    assert first.text.endswith("slept.") and second.text.startswith("A dog ran.")
    with pytest.raises(UsageError, match="embedding model"):
        passages(Loaded(text), chunker="semantic")


def test_recursive_cuts_no_finer_than_it_must():
    text = "One two three.\n\nFour five.\nSix seven eight nine.\n\nTen eleven."
    cut = passages(Loaded(text), chunker="recursive", size=5)
    assert [chunk.text for chunk in cut] == ["One two three.\n\nFour five.", "Six seven eight nine.", "Ten eleven."]
    cut = passages(Loaded("Intro.\n# A\nOne two.\n# B\nThree four."), chunker="markdown", size=5)
    assert [chunk.text for chunk in cut] == ["Intro.\n# A\nOne two.", "# B\nThree four."]


def test_whole_sentences_are_repeated_only_where_they_fit():
    five, other, eight = "One two three four five.", "Boats sail out at dawn.", "Nets hang over the wall to dry today."
    cut = passages(Loaded(f"{five} {other} {eight}"), chunker="sentences", unit="words", size=10, overlap=6)
    assert [chunk.text for chunk in cut] == [f"{five} {other}", eight]
    cut = passages(Loaded(f"{five} {other} Nets hang here."), chunker="sentences", unit="words", size=10, overlap=6)
    assert [chunk.text for chunk in cut] == [f"{five} {other}", f"{other} Nets hang here."]


def test_by_default_a_passage_ends_with_a_sentence():
    cut = passages(Loaded("The bridge was opened on 17 February 2025, in rain. " * 40))
    assert len(cut) > 1
    assert {chunk.text[-8:] for chunk in cut} == {"in rain."}


def test_windows_share_the_overlap():
    cut = passages(Loaded(" ".join("abcdefghij")), chunker="fixed", unit="words", size=4, overlap=1)
    assert [chunk.text for chunk in cut] == ["a b c d", "d e f g", "g h i j"]


def test_sections_and_headings_without_text():
    (loaded,), _ = read("a.md", "# Book\n\n## Leave\n\nTen days.\n\n## Keys\n\nForty euro.\n\n## Dogs\n")
    chunks = [(each.text, each.metadata.get("heading_path")) for each in passages(loaded, chunker="headings")]
    assert chunks == [("## Leave\n\nTen days.", ["Leave"]), ("## Keys\n\nForty euro.", ["Keys"]), ("## Dogs", ["Dogs"])]


def test_long_tables_repeat_their_header():
    rows = "".join(f"| S{n:03d} | Station {n} | {n} |\n" for n in range(100))
    (loaded,), _ = read("t.md", f"Before.\n\n| Code | Name | Depth |\n|---|---|---|\n{rows}\nAfter.\n")
    chunks = passages(loaded, size=50, overlap=20)
    table = [each for each in chunks if "| S0" in each.text]
    assert all(each.text.startswith("| Code") and each.text.endswith("|") for each in table)
    assert sum(each.text.count("| S0") for each in table) == 100
    assert [chunks[0].text, chunks[-1].text] == ["Before.", "After."]
    _, _, rows = table[1].text.partition("|---|---|---|\n")
    assert rows == loaded.text[table[1].metadata["start"] : table[1].metadata["end"]]


def test_a_long_table_of_a_single_row_is_read():
    names = " ".join(f"name{number}" for number in range(200))
    (doc,), _ = read("a.html", f"<p>Before.</p><table><tr><td>{names}</td><td>End.</td></tr></table>")
    text = " ".join(passage.text for passage in passages(doc, size=50))
    assert [word for word in text.split() if word.startswith("name")] == names.split()


def test_rows_of_a_table_have_their_own_page():
    table = Loaded("head\nfirst row\nnext row\nlast row", tables=(Table(0, 5, 32),), pages=(0, 15, 24))
    (passage, _) = passages(table, unit="words", size=5)
    doc = Document(passage.text, metadata=passage.metadata)
    assert passage.text == "head\nfirst row\nnext row"
    start = passage.text.index("next")
    assert [place_at(doc, at)["page"] for at in (start - 2, start)] == [1, 2]


def test_tokens_are_counted_in_tables_too():
    table = Loaded("a-b-c\n" * 40, tables=(Table(0, 0, 240),))
    assert {each.text for each in passages(table, chunker="token", size=10)} == {"a-b-c\na-b-c"}


def test_scripts_without_spaces_and_endless_words():
    chunks = passages(Loaded("员工每年享有十五天带薪年假。" * 40))
    assert len(chunks) > 3 and all(len(each.text) < 130 for each in chunks)
    assert max(len(each.text) for each in passages(Loaded("x" * 100_000), size=10)) <= 2000
    with pytest.raises(UsageError, match="unknown chunker"):
        passages(Loaded("x"), chunker="paragraf")
