"""Model families: the sampling that their cards recommend, found by a GGUF file's header.

The cards' sampling is for free text. Verdicts, ids and short answers are decoded greedily whatever
the family, as the papers do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragweave.llamacpp.gguf import GGUFFacts

Settings = Mapping[str, float | int]


@dataclass(frozen=True)
class Family:
    """What a model card recommends."""

    name: str
    architectures: str
    """Regular expression that matches all of `general.architecture`."""
    names: str
    """Regular expression for the words that the model's or the file's name begins with, in lower
    case, a single space in the place of punctuation."""
    text: Settings
    """Sampling of free text, without thinking."""
    source: str
    """Where the values stand; "unchecked" where they were written down from memory of it."""
    thinking: Settings | None = None
    """Sampling with thinking; None for a family that can't think, or has no switch for it."""


FAMILIES = (
    Family(
        name="Qwen3.5",
        architectures=r"qwen35(moe)?",
        names=r"qwen ?3 ?5",
        text={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "presence_penalty": 1.5},
        thinking={"temperature": 1.0, "top_p": 0.95, "top_k": 20, "presence_penalty": 1.5},
        source="model card Qwen/Qwen3.5-35B-A3B, Best Practices (general tasks)",
    ),
    Family(
        name="Qwen3",
        architectures=r"qwen3(moe|next)?",
        names=r"qwen ?3",
        text={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.0},
        thinking={"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0},
        source="model card Qwen/Qwen3-0.6B, Best Practices",
    ),
    Family(
        name="Qwen2.5",
        architectures=r"qwen2",
        names=r"qwen ?2 ?5",
        text={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05},
        source="generation_config.json of Qwen/Qwen2.5-7B-Instruct, unchecked",
    ),
    Family(
        name="Gemma 4",
        architectures=r"gemma4",
        names=r"gemma ?4",
        text={"temperature": 1.0, "top_p": 0.95, "top_k": 64},
        thinking={"temperature": 1.0, "top_p": 0.95, "top_k": 64},
        source="model card google/gemma-4-31B-it, Best Practices",
    ),
    Family(
        name="Gemma 3",
        architectures=r"gemma3n?",
        names=r"gemma ?3n?",
        text={"temperature": 1.0, "top_p": 0.95, "top_k": 64},
        source="generation_config.json of google/gemma-3-1b-it (its temperature is the default, 1), unchecked",
    ),
    Family(
        name="SmolLM3",
        architectures=r"smollm3",
        names=r"smol ?lm ?3",
        text={"temperature": 0.6, "top_p": 0.95},
        thinking={"temperature": 0.6, "top_p": 0.95},
        source="model card HuggingFaceTB/SmolLM3-3B, How to use",
    ),
    Family(
        name="SmolLM2",
        architectures=r"llama",
        names=r"smol ?lm ?2",
        text={"temperature": 0.2, "top_p": 0.9},
        source="model card HuggingFaceTB/SmolLM2-135M-Instruct, How to use, unchecked",
    ),
    Family(
        name="Llama 3",
        architectures=r"llama",
        names=r"llama ?3( ?[123])?",
        text={"temperature": 0.6, "top_p": 0.9},
        source="generation_config.json of meta-llama/Llama-3.2-3B-Instruct",
    ),
    Family(
        name="LFM2.5",
        architectures=r"lfm2(moe)?",
        names=r"lfm ?2 ?5",
        text={"temperature": 0.1, "top_k": 50, "top_p": 0.1, "repetition_penalty": 1.05},
        source="Liquid AI's documentation, Text generation and prompting (LFM2.5 text models)",
    ),
    Family(
        name="LFM2",
        architectures=r"lfm2(moe)?",
        names=r"lfm ?2",
        text={"temperature": 0.3, "min_p": 0.15, "repetition_penalty": 1.05},
        source="model card LiquidAI/LFM2-1.2B, Generation parameters",
    ),
    Family(
        name="Granite 4",
        architectures=r"granite(hybrid|moe)?",
        names=r"granite ?4",
        text={"temperature": 0.0},
        source="model card ibm-granite/granite-4.0-micro (its examples decode greedily), unchecked",
    ),
    Family(
        name="Phi-4-mini",
        architectures=r"phi3",
        names=r"phi ?4 mini",
        text={"temperature": 0.0},
        source="model card microsoft/Phi-4-mini-instruct, generation_args, unchecked",
    ),
)
"""In order of precedence: the first match counts."""


_MAKERS = (
    r"(?:(?:qwen|google|meta(?: llama)?|huggingfacetb|liquidai|ibm granite|microsoft|unsloth) )*"
)
"""Who made or converted a model, where that stands before its name."""
_WORD = re.compile(
    "instruct|it|chat|base|pt|thinking|coder|preview|exp|next|h|tiny|small|micro|nano"
    "|qat|ud|gguf|unquantized|imat|of|k|m|s|l|xl|xs|xxs|nl|dpo|ultaf"
)
"""Words of the families' own models and of quantisations. Any other may name a model of somebody
else's, such as a fine-tune or a distillation, whose card recommends other values."""
_NUMBER = re.compile(r"(?!r\d)[a-z]{0,6}\d+[a-z]{0,2}\d*")
"""A size, a version or a quantisation: `8b`, `a3b`, `e2b`, `2507`, `q4`, `mxfp4`; not `r1`."""


def family_of(facts: GGUFFacts) -> Family | None:
    """Return the family of a model file; None where `FAMILIES` has none for it.

    What only mentions a family's name, as fine-tunes and distilled models do, is none of it.
    """
    told = (facts.metadata.get(f"general.{part}") or "" for part in ("basename", "finetune"))
    stated = [facts.name, " ".join(map(str, told)), facts.path.stem]
    names = [re.sub(r"[^a-z0-9]+", " ", name.lower()).strip() for name in stated]
    for family in FAMILIES:
        if not re.fullmatch(family.architectures, facts.architecture):
            continue
        if any(_is_called(name, family) for name in names):
            return family
    return None


def thinking_sampling(facts: GGUFFacts) -> Settings | None:
    """Return the sampling for a model file that thinks; None where no card says any.

    Decoded greedily, thoughts repeat themselves: so a model that was made of a family's, and has
    another name, takes the family's.
    """
    if (family := family_of(facts)) is not None:
        return family.thinking or family.text
    akin = (one for one in FAMILIES if re.fullmatch(one.architectures, facts.architecture))
    return next((one.thinking for one in akin if one.thinking), None)


def _is_called(name: str, family: Family) -> bool:
    """Say whether a name is the family's with nothing behind it but sizes and words of its own."""
    found = re.match(rf"{_MAKERS}(?:{family.names})(?: |\Z)", name)
    rest = name[found.end() :].split() if found else []
    return found is not None and all(map(_is_own, rest))


def _is_own(word: str) -> bool:
    return _WORD.fullmatch(word) is not None or _NUMBER.fullmatch(word) is not None


def is_base_model(facts: GGUFFacts) -> bool:
    """Return whether the model's or file's name says that it is a base (pretrained) model.

    `pt` may mean Portuguese, and `base` a database: an instruct model is none, whatever its name.
    """
    stated = f"{facts.name} {facts.metadata.get('general.finetune', '')} {facts.path.stem}"
    words = set(re.findall("[a-z]+", stated.lower()))
    return bool(words & {"base", "pretrained", "pt"}) and not words & {"instruct", "chat", "it"}
