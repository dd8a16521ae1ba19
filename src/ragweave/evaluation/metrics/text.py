"""Texts as metrics compare them.

Two rules compare short answers. `squad_normalize` follows the script of SQuAD 2.0 (Rajpurkar et al. 2018) to the
letter; published numbers are compared by it. `words_of` applies the same rule to texts whose Unicode forms have
been made one: composed and decomposed accents, typographic quotes, dashes and spaces, full-width digits,
separators of thousands, punctuation of any script. It keeps an answer that is nothing but an article ("A", "The
The"), and counts Chinese, Japanese and Thai by letter, since these have no spaces.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
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
    """Lower-case, without ASCII punctuation and articles: SQuAD's rule."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_ASCII)).split())


def fold(text: str) -> str:
    """Return a text with one form of each letter, quote, dash and space, in lower case."""
    plain = unicodedata.normalize("NFKC", text).translate(_SAME).casefold()
    return "".join(one for one in plain if unicodedata.category(one) != "Cf")


@lru_cache(maxsize=1 << 14)
def all_words(text: str) -> tuple[str, ...]:
    """Return a text's words, folded and without punctuation; of scripts without spaces, letters."""
    plain = _THOUSANDS.sub("", fold(text))
    letters = (one for one in plain if not unicodedata.category(one).startswith("P"))
    return tuple(_UNSPACED.sub(r" \1 ", "".join(letters)).split())


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words that `em` and `f1` compare: all but articles, or these if all are."""
    words = all_words(text)
    return tuple(one for one in words if one not in ("a", "an", "the")) or words


@lru_cache(maxsize=1 << 12)
def dpr_tokens(text: str) -> tuple[str, ...]:
    """Return tokens as DPR's script splits them: runs of letters and digits, or single signs.

    It decomposes accents (NFD) and ignores case; we first make quotes and dashes one.
    """
    return tuple(_DPR.findall(unicodedata.normalize("NFD", text.translate(_SAME)).lower()))


def filco_normalize(text: str) -> str:
    """Lower-case, without articles, punctuation kept: the rule of FILCO's released code."""
    return " ".join(_ARTICLES.sub(" ", unicodedata.normalize("NFD", text).lower()).split())


def stands_in(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Say whether words stand in a row in others; no words stand nowhere."""
    size = len(part)
    starts = (at for at, word in enumerate(whole) if part and word == part[0])
    return any(whole[at : at + size] == part for at in starts)


def overlap(said: Iterable[str], right: Iterable[str]) -> float:
    """Return the F1 of two bags of words, or of letters."""
    one, other = Counter(said), Counter(right)
    if not one or not other:
        return float(one == other)
    return 2 * (one & other).total() / (one.total() + other.total())
