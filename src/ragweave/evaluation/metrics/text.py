"""Normalised texts, which metrics compare.

Two rules compare short answers. `squad_normalize` follows the script of SQuAD 2.0 (Rajpurkar et al. 2018) exactly;
published numbers use it. `words_of` applies the same rule after unifying Unicode forms: composed and decomposed accents,
typographic quotes, dashes and spaces, full-width digits, thousands separators, punctuation of any script. It keeps an
answer that consists only of articles ("A", "The The"), and compares Chinese, Japanese and Thai letter by letter, since
these have no spaces.
"""

import re
import string
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII = str.maketrans("", "", string.punctuation)
_SAME = str.maketrans(
    {**dict.fromkeys("‐‑‒–—―−﹣－", "-"), **dict.fromkeys("‘’‚‛′ʼ`´", "'"), **dict.fromkeys("“”„‟″«»", '"')}
)
_UNSPACED = re.compile(r"([\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_THOUSANDS = re.compile(r"(?<=\d)[\s'](?=\d{3}(?!\d))")
_DPR = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+|[^\s\w]|_")


def squad_normalize(text: str) -> str:
    """Return a text in lower case without ASCII punctuation and articles: SQuAD's rule."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_ASCII)).split())


@lru_cache(maxsize=1 << 14)
def all_words(text: str) -> tuple[str, ...]:
    """Return a text's words in lower case and without punctuation; in scripts without spaces, its letters."""
    plain = unicodedata.normalize("NFKC", text).translate(_SAME).casefold()
    visible = "".join(char for char in plain if unicodedata.category(char) != "Cf")
    letters = (char for char in _THOUSANDS.sub("", visible) if not unicodedata.category(char).startswith("P"))
    return tuple(_UNSPACED.sub(r" \1 ", "".join(letters)).split())


def parted_words(text: str) -> list[str]:
    """Return the same words, but parted by punctuation and symbols, as ROUGE counts them."""
    spaced = "".join(" " if unicodedata.category(char)[0] in "PS" else char for char in text)
    return [word for part in spaced.split() for word in all_words(part)]


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words that `em` and `f1` compare: all except articles, or all if there are only articles."""
    words = all_words(text)
    return tuple(word for word in words if word not in ("a", "an", "the")) or words


@lru_cache(maxsize=1 << 12)
def dpr_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens of DPR's script: runs of letters and digits, or single characters.

    The script decomposes accents (NFD) and ignores case; we also unify quotes and dashes first.
    """
    return tuple(_DPR.findall(unicodedata.normalize("NFD", text.translate(_SAME)).lower()))


def stands_in(part: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether `part` occurs as a run in `words`; an empty part does not."""
    size = len(part)
    starts = (at for at, word in enumerate(words) if part and word == part[0])
    return any(words[at : at + size] == part for at in starts)
