"""Nasty strings of any length: what makes a pattern or a parser read the same text again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

Maker = Callable[[int], str]
"""Gives a string of about so many characters."""

ATOMS = (
    *("`", "'", '"', "(", "[", "{", "<", ")", "]", "}", ">", "«", "“", "’", " ", "\n", "\r", "\t"),
    *("\r\n", "\n\n", ".", "!", "?", "…", "a", "A", "1", "a ", "A ", "1 ", "a. ", "A b. ", "1. "),
    *("1,", "1-", "a.b", "a'", "😀", "。", "中", "é", "# ", "#", "* ", "- ", "_", "**", "~~~\n"),
    *("```\n", "= ", "=", "<b>", "</b>", "<b ", "<!--", "-->", "<!", "<![CDATA[", "]]>", "<?"),
    *("</", '<a x="', "<a x='", "&", "&amp", "&#", "<script>", "</p", "|", "\\", "\\boxed{"),
    *("\\text{", "<think>", "</think>", "<answer>", "Answer: ", "So the answer is ", "Search["),
    *("Finish[", "Action: ", "Observation: ", "Follow up: ", "Final answer: ", "Known("),
    *("<Known(True)>", "<Claim> ", "<Query> ", "knowledge 1 ", "0, ", "0-9 ", "none ", "except "),
    *("yes ", "no ", "not ", "but ", "what ", "what do ", "how many ", "the ", "of ", "May "),
    *("1 May ", '"a":', '{"a":', '\\"', ",", "\x00", "\u2028", "\xa0", "\x0b", "\x1c", "\u200d"),
    *("\ufeff", "\u0301", "<|", "[[", "[INST", "system:", "the passage ", "does not ", "look "),
    *("information ", "I need to ", "early ", "century ", "，", "：", "it's ", "Knowledge 1:"),
)
_BEFORE = ("", "a", "# a", "What ", "Answer: ", "<", '"', "The passage ")
_AFTER = ("", "x", "!", "\n", "?", '"', ")", ">")


def repeated(atom: str) -> Maker:
    """Return a maker of one atom again and again."""
    return lambda length: (atom * (length // len(atom) + 1))[:length]


def mixed(rng: random.Random) -> Maker:
    """Return a maker of some atoms in turn, or a run of each behind the other."""
    before, after = rng.choice(_BEFORE), rng.choice(_AFTER)
    atoms = rng.sample(ATOMS, rng.choice((1, 2, 2, 3)))
    if rng.random() < 0.5:
        inner = repeated("".join(atoms))
        return lambda length: before + inner(length) + after
    return lambda length: (
        before + "".join(repeated(atom)(length // len(atoms)) for atom in atoms) + after
    )


def makers(seed: str, *, atoms: int, mixes: int) -> Iterator[Maker]:
    """Yield `atoms` repeated atoms and `mixes` mixtures, the same for the same seed."""
    rng = random.Random(seed)
    yield from map(repeated, rng.sample(ATOMS, min(atoms, len(ATOMS))))
    yield from (mixed(rng) for _ in range(mixes))
