"""Trained networks: the span encoder, and models that write. Importing it imports torch.

The span encoder is ours, in place of FILCO's M_ctx on a laptop. It reads a passage once, so that a sentence is judged among
the others. A window of its input is `[CLS] question [SEP] title : sentence sentence … [SEP]`; a passage that is longer
takes several. Models that write are sequence-to-sequence ones, and causal ones with low-rank adapters; they decode
greedily.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ragweave.errors import need
from ragweave.tools.models.huggingface import SAFELY, device, model_folder, model_of, tokenizer_of
from ragweave.tools.trained.card import Card, TrainedRole
from ragweave.tools.trained.forms import Input, Passage, fitted, lead

WEIGHTS = "model.safetensors"
NOBODY, ASKED = -1, -2
"""Owners of tokens that belong to no scored sentence, and to the question."""
OUTSIDE = -1e4
"""Score of what is masked out."""
_QUESTION, _TITLE = 64, 24
_COSINE = 10.0
"""Initial weight of the cosine: a sentence encoder ranks well by it before any training."""
_WORDS = re.compile(r"\w+")


class EncoderWindow(NamedTuple):
    """One input of the encoder."""

    ids: list[int]
    owners: list[int]
    """The sentence that each token belongs to, counted over all passages of a question, or `NOBODY`, or `ASKED`."""
    second: int
    """Index of the first token of title and sentences."""


class Sheet(NamedTuple):
    """A question with its passages, as the encoder reads them."""

    windows: list[EncoderWindow]
    features: list[list[float]]
    """(sentences, 3): see `word_features`."""

    @property
    def length(self) -> int:
        """Tokens of the longest window."""
        return max(len(window.ids) for window in self.windows)


def word_features(question: str, sentence: str, index: int) -> list[float]:
    """Return word F1 with the question, the share of its words in the sentence, and 1 / (1 + index)."""
    asked, own = (Counter(_WORDS.findall(text.lower())) for text in (question, sentence))
    common, total = (asked & own).total(), asked.total() + own.total()
    return [2 * common / max(1, total), common / max(1, asked.total()), 1 / (1 + index)]


class Reader(NamedTuple):
    """Turns texts into windows. Not safe under threads: fast tokenizers have state."""

    tokenizer: Any
    """A fast tokenizer, which has tokens for the start and end of a text."""
    limit: int
    """Maximum number of tokens of a window."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens."""
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False) if texts else {"input_ids": []}
        return [list(ids) for ids in encoded["input_ids"]]

    def read(self, question: str, passages: Sequence[Passage]) -> Sheet:
        """Read a question with its passages, at least one of which has a sentence."""
        windows: list[EncoderWindow] = []
        features: list[list[float]] = []
        asked = self.tokens([question])[0][: min(_QUESTION, self.limit // 4)]
        for title, sentences in passages:
            windows += self._windows(asked, title, sentences, len(features))
            features += (word_features(question, sentence, at) for at, sentence in enumerate(sentences))
        return Sheet(windows, features)

    def _windows(self, asked: list[int], title: str, sentences: Sequence[str], first: int) -> Iterator[EncoderWindow]:
        """Yield windows of as many sentences as fit, preceded by the previous sentence if that is short."""
        begin, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        unknown = end if self.tokenizer.unk_token_id is None else self.tokenizer.unk_token_id
        named = self.tokens([f"{title} :"])[0][-min(_TITLE, self.limit // 10) :] if title.strip() else []
        head, owned = [begin, *asked, end], [NOBODY, *[ASKED] * len(asked), NOBODY]
        room = self.limit - len(head) - len(named) - 1
        pieces = [ids[:room] or [unknown] for ids in self.tokens(sentences)]
        start = 0
        while start < len(pieces):
            lead = pieces[start - 1] if start else []
            if len(lead) * 2 >= room or len(lead) + len(pieces[start]) > room:
                lead = []
            ids, owners = [*head, *named, *lead], [*owned, *[NOBODY] * (len(named) + len(lead))]
            least = len(ids) - len(lead)
            while start < len(pieces) and len(ids) - least + len(pieces[start]) <= room:
                ids += pieces[start]
                owners += [first + start] * len(pieces[start])
                start += 1
            yield EncoderWindow([*ids, end], [*owners, NOBODY], len(head))


def padded(rows: Sequence[Sequence[int]], width: int, filler: int) -> Tensor:
    """Return rows of numbers as a tensor, (rows, width)."""
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def batch_of(sheets: Sequence[Sheet], filler: int) -> dict[str, Tensor]:
    """Pad sheets to the inputs of `SpanEncoder.forward`; `filler` is the tokenizer's padding."""
    windows = [window for sheet in sheets for window in sheet.windows]
    width = max(len(window.ids) for window in windows)
    types = [[0] * window.second + [1] * (len(window.ids) - window.second) for window in windows]
    scored = [
        (at, number)
        for at, window in enumerate(windows)
        for number in sorted({owner for owner in window.owners if owner >= 0})
    ]
    return {
        "input_ids": padded([window.ids for window in windows], width, filler),
        "token_type_ids": padded(types, width, 0),
        "attention_mask": padded([[1] * len(window.ids) for window in windows], width, 0),
        "owners": padded([window.owners for window in windows], width, NOBODY),
        "rows": torch.tensor([at for at, _ in scored]),
        "numbers": torch.tensor([number for _, number in scored]),
        "features": torch.tensor([features for sheet in sheets for features in sheet.features]),
    }


class Scores(NamedTuple):
    """Logits: of sentences, whose softmax over a question's gives shares; of tokens, of being the answer's."""

    sentences: Tensor
    """(sentences,)"""
    tokens: Tensor
    """(windows, tokens)"""


class SpanEncoder(nn.Module):
    """A transformers encoder under a head that scores sentences.

    A sentence's score is a two-layer net over its mean state, plus the log-sum-exp of its tokens' scores (as a question
    answering head sums over where an answer may be), plus a learned weight times the cosine between its mean state and
    the question's, plus a linear map of its features.
    """

    def __init__(self, encoder: Any, dropout: float = 0.0) -> None:
        """Take the encoder; its pooler, which is not used, is dropped."""
        super().__init__()
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        width = encoder.config.hidden_size
        self.encoder, self.dropout = encoder, nn.Dropout(dropout)
        self.hidden, self.mean, self.token = nn.Linear(width, width), nn.Linear(width, 1), nn.Linear(width, 1)
        self.cosine = nn.Parameter(torch.tensor(_COSINE))
        self.known = nn.Linear(3, 1, bias=False)
        nn.init.zeros_(self.known.weight)

    def forward(self, **batch: Tensor) -> Scores:
        """Score a batch of `batch_of` on the model's device; the head always computes in float32."""
        batch = {name: tensor.to(self.cosine.device) for name, tensor in batch.items()}
        typed = getattr(self.encoder.config, "type_vocab_size", 0) > 1
        types = {"token_type_ids": batch["token_type_ids"]} if typed else {}
        states = self.encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **types)
        with torch.autocast(self.cosine.device.type, enabled=False):
            return self._head(states.last_hidden_state.float(), batch)

    def _head(self, states: Tensor, batch: dict[str, Tensor]) -> Scores:
        rows = batch["rows"]
        members = batch["owners"][rows] == batch["numbers"][:, None]
        number, token = members.nonzero(as_tuple=True)
        total = states.new_zeros(len(rows), states.shape[-1]).index_add(0, number, states[rows[number], token])
        pooled = total / members.sum(-1, keepdim=True)
        asked = (batch["owners"] == ASKED)[..., None]
        question = (states * asked).sum(1) / asked.sum(1).clamp(min=1)
        near = nn.functional.cosine_similarity(pooled, question[rows])
        mean = self.mean(self.dropout(nn.functional.gelu(self.hidden(pooled)))).squeeze(-1)
        tokens = self.token(self.dropout(states)).squeeze(-1)
        peak = tokens[rows].masked_fill(~members, OUTSIDE).logsumexp(-1)
        known = self.known(batch["features"]).squeeze(-1)
        return Scores(mean + peak + self.cosine * near + known, tokens)


class SpanScorer(NamedTuple):
    """A span encoder, and what reads its input."""

    reader: Reader
    model: SpanEncoder

    def shares(self, sheets: Sequence[Sheet]) -> list[list[float]]:
        """Return each sentence's probability divided by that of the sheet's best sentence, in (0, 1]."""
        filler = self.reader.tokenizer.pad_token_id or 0
        with torch.inference_mode():
            self.model.eval()
            logits = [self.model(**batch_of([sheet], filler)).sentences.double() for sheet in sheets]
            return [(row - row.max()).exp().tolist() for row in logits]


def write_span_encoder(folder: Path, model: SpanEncoder, tokenizer: Any) -> None:
    """Write a span encoder's weights, configuration and tokenizer."""
    from safetensors.torch import save_model

    model.encoder.config.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    save_model(model, str(folder / WEIGHTS))


def read_span_encoder(folder: Path, dropout: float = 0.0) -> SpanEncoder:
    """Read a span encoder."""
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModel

    auto: Any = AutoModel
    config = AutoConfig.from_pretrained(str(folder), **SAFELY)
    model = SpanEncoder(auto.from_config(config, trust_remote_code=False), dropout)
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model.float().eval()


# ---- writers


class WrittenText(NamedTuple):
    """A reply."""

    text: str
    input_tokens: int
    output_tokens: int
    finished: bool
    """Whether it ended by itself."""
    cut: bool
    """Whether the end of the input was not read."""


@dataclass(frozen=True)
class TextWriter:
    """Writes texts."""

    model: Any
    """A model of transformers."""
    tokenizer: Any
    role: TrainedRole
    max_input: int
    """Maximum number of tokens read."""
    max_output: int
    """Maximum number of tokens written."""

    def write(self, question: str, inputs: Sequence[Input]) -> list[WrittenText]:
        """Return what the model writes for each input of a question."""
        return [self._written(question, given) for given in inputs]

    def _written(self, question: str, given: Input) -> WrittenText:
        causal = not self.model.config.is_encoder_decoder
        if causal:
            given = given._replace(tail=given.tail + lead(self.role, question))
        text, cut = fitted(self.tokenizer, given, self.max_input)
        inputs = self.tokenizer(text, return_tensors="pt", return_token_type_ids=False).to(self.model.device)
        with torch.inference_mode():
            (output,) = self.model.eval().generate(
                **inputs,
                max_new_tokens=self.max_output,
                do_sample=False,
                num_beams=1,
                eos_token_id=self.tokenizer.eos_token_id,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        read = inputs["input_ids"].shape[1]
        new = output[read:] if causal else output[1:]
        finished = bool((new == self.tokenizer.eos_token_id).any())
        return WrittenText(self.tokenizer.decode(new, skip_special_tokens=True).strip(), read, len(new), finished, cut)


def load(folder: Path, card: Card) -> Any:
    """Load a trained `SpanScorer` or `TextWriter`; the base of adapters must be on this machine."""
    where = device()
    if card.kind == "span-encoder":
        return SpanScorer(Reader(tokenizer_of(folder), card.max_input), read_span_encoder(folder).to(where))
    dtype = torch.bfloat16 if where == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    if card.kind == "seq2seq":
        model = model_of(folder, "AutoModelForSeq2SeqLM", dtype=dtype)
    else:
        need("A component with adapters", "train", "peft")
        from peft import PeftModel

        base = model_of(model_folder(card.base), "AutoModelForCausalLM", dtype=dtype)
        model = PeftModel.from_pretrained(base, str(folder), local_files_only=True)
    return TextWriter(model.to(where), tokenizer_of(folder), card.role, card.max_input, card.max_output)
