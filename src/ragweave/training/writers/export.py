"""A part's adapters merged into their base, and the way from there to llama.cpp."""

from __future__ import annotations

import shlex
from pathlib import Path

from ragweave.errors import UsageError
from ragweave.tools.files import is_full_disk
from ragweave.tools.scorers.huggingface import find_base_model, quiet
from ragweave.trained.card import PartRole, check_safe, read_card
from ragweave.trained.forms import LEADS
from ragweave.trained.weights import (
    greedy,
    need_transformers,
    read_model,
    read_tokenizer,
    with_adapter,
)
from ragweave.training.rows import read_question_hashes, write_question_hashes

_LLAMA_CPP = "llama.cpp"
_QUANT = "Q4_K_M"


def merge(folder: str | Path, out: str | Path) -> Path:
    """Merge a causal-lora part into one whole model, in the base's own number type.

    The merged model's chat template writes messages as they stand, then what the part expects
    before its output: an engine that applies it (llama.cpp does) feeds the model what it learnt
    to read, once the prompt has the part's form (`ragweave.trained.forms`). The hashes of the
    questions that the part has learnt go with it, for a part that is trained from it.

    Args:
        folder: The part's folder.
        out: A new or empty folder.

    Returns:
        `out`.

    Raises:
        UsageError: The folder is not a causal-lora part, `out` has something in it, or the part's
            question hashes are damaged.
        ModelError: The base model is not on this machine, or the adapters do not fit it.
    """
    path, target = Path(folder), Path(out)
    card = read_card(path)
    if card.kind != "causal-lora":
        raise UsageError(f"{path}: is a {card.kind} part; only causal-lora ones are merged")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target}: already exists; name another folder")
    check_safe(path)
    seen = read_question_hashes(path)
    need_transformers("Merging", "train", "peft")
    from safetensors import SafetensorError

    tokenizer = read_tokenizer(path)
    base = read_model(find_base_model(card.base, path), causal=True, dtype="auto")
    merged = with_adapter(base, path).merge_and_unload()
    tokenizer.chat_template = chat_template(card.role)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with quiet():
            greedy(merged, tokenizer).save_pretrained(target)
        tokenizer.save_pretrained(target)
        if seen:
            write_question_hashes(target, [], seen)
    except (OSError, RuntimeError, SafetensorError) as error:
        if not is_full_disk(error):
            raise
        raise UsageError(f"{target}: the disk is full; free space or name another") from error
    return target


def chat_template(role: PartRole) -> str:
    """Return the chat template of a merged part: the messages' texts, then the role's lead."""
    lead = LEADS[role].replace("\n", "\\n")
    return (
        "{% for message in messages %}{{ message['content'] }}"
        "{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}"
        f"{{% if add_generation_prompt %}}{{{{ '{lead}' }}}}{{% endif %}}"
    )


def gguf_commands(folder: str | Path) -> list[str]:
    """Return the commands that turn a merged folder into a GGUF for `llamacpp:`.

    Source: llama.cpp's own documentation of convert_hf_to_gguf.py and llama-quantize.
    """
    path = Path(folder)
    whole, small = (shlex.quote(str(path / f"{path.name}-{kind}.gguf")) for kind in ("f16", _QUANT))
    return [
        f"git clone --depth 1 https://github.com/ggml-org/llama.cpp {_LLAMA_CPP}",
        f"pip install -r {_LLAMA_CPP}/requirements/requirements-convert_hf_to_gguf.txt",
        f"python {_LLAMA_CPP}/convert_hf_to_gguf.py {shlex.quote(str(path))} --outfile {whole} "
        f"--outtype f16",
        f"cmake -S {_LLAMA_CPP} -B {_LLAMA_CPP}/build && cmake --build {_LLAMA_CPP}/build "
        f"--config Release --target llama-quantize",
        f"{_LLAMA_CPP}/build/bin/llama-quantize {whole} {small} {_QUANT}",
    ]
