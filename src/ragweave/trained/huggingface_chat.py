"""A causal Hugging Face model as a chat model in this process, with the probability of each token.

For a model that is on this machine, without a server: `hf:FOLDER`, or the hub name of one that was
downloaded. As with trained parts, weights are read from safetensors alone and no code of the folder
is run. One reply at a time, greedily unless a temperature is set; a server is faster where many
questions run at once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr, TypeAdapter, ValidationError

from ragweave.errors import ModelError, PromptTooLongError, UsageError
from ragweave.tools.files import parse_json
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.models.specs import ModelProvider, check_settings, checked_model
from ragweave.tools.scorers.huggingface import find_base_model
from ragweave.trained.weights import (
    best_device,
    check_device,
    check_dtype,
    greedy,
    need_transformers,
    read_model,
    read_tokenizer,
)

_ROLES = {"system": "system", "ai": "assistant"}
_CALL = ("max_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs")
"""Settings that a call may change."""


class HuggingFaceChat(BaseChatModel):
    """A chat model over transformers; replies report log-probabilities in OpenAI's form.

    A model without a chat template continues the prompt's text. Safe under threads: calls take
    turns.

    Example:
        >>> model = HuggingFaceChat("Qwen/Qwen2.5-0.5B-Instruct")  # doctest: +SKIP
        >>> model.invoke("Name a colour.", logprobs=True).response_metadata  # doctest: +SKIP
    """

    takes_seed: ClassVar[bool] = True
    """Whether a call may set the seed of its draw."""

    folder: str
    """The model's folder, or its hub name; nothing is downloaded."""
    device: str = "auto"
    """A torch device; `auto`: CUDA where there is one."""
    dtype: str = "auto"
    """Number type of the weights, such as `float32`; `auto`: as they are stored."""
    max_tokens: int = Field(default=512, ge=1)
    """Most tokens of a reply."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """0: greedy."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Nucleus, where `temperature` is above 0."""
    seed: int | None = None
    """Seed of the draw; None: another one each time."""
    logprobs: bool | None = None
    """Whether replies report the log-probability of each token."""
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    """Candidates of each place that are reported, with `logprobs`."""

    _path: Path = PrivateAttr()
    _model: Any = PrivateAttr(default=None)
    _tokenizer: Any = PrivateAttr(default=None)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, folder: str, **settings: Any) -> None:
        """Find the model; its weights are loaded by `load`, or when they are first needed.

        Raises:
            MissingExtraError: transformers or torch is not installed.
            ModelError: It is not on this machine.
            UsageError: It is no causal model, or there is no such device or number type.
        """
        super().__init__(**{"folder": folder, **settings})
        need_transformers("A Hugging Face model", "hf")
        check_device(self.device)
        check_dtype(self.dtype)
        self._path = find_base_model(folder)
        limit = _context(self._path)
        if self.profile is None and limit:
            self.profile = {"max_input_tokens": limit}

    @property
    def model_name(self) -> str:
        """The name that traces show."""
        return f"hf:{self.folder}"

    @property
    def _llm_type(self) -> str:
        return "ragweave-huggingface"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _CALL}
        return {"folder": str(self._path), "dtype": self.dtype, **own}

    def load(self) -> None:
        """Load the weights now rather than at the first call.

        Raises:
            ModelError: They can't be read.
            UsageError: The folder refers to code.
        """
        with self._lock:
            self._load()

    def warm_up(self) -> None:
        """Load the weights now, so that the first answer does not pay for it."""
        self.load()

    def _load(self) -> None:
        if self._model is not None:
            return
        self._tokenizer = read_tokenizer(self._path)
        model = read_model(self._path, causal=True, dtype=self.dtype)
        device = best_device() if self.device == "auto" else self.device
        self._model = greedy(model.to(device).eval(), self._tokenizer)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> ChatResult:
        own = {name: getattr(self, name) for name in _CALL}
        settings = {**own, **self._checked(kwargs)}
        with self._lock:
            self._load()
            ids = prompt_ids(self._tokenizer, messages)
            self._check_room(len(ids), settings["max_tokens"])
            written = _written(self._model, ids, settings)
            return self._result(len(ids), written, settings, stop or [])

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's settings within the bounds of the fields; None keeps the model's own."""
        if unknown := given.keys() - set(_CALL):
            raise UsageError(f"{self.model_name} has no setting {min(unknown)!r} for a call")
        checked = {}
        for name, value in given.items():
            if value is None:
                continue
            try:
                checked[name] = _field(name).validate_python(value)
            except ValidationError as error:
                why = error.errors(include_url=False)[0]["msg"]
                raise UsageError(f"{self.model_name}: {name}={value!r}: {why}") from error
        return checked

    def _check_room(self, prompt: int, reply: int) -> None:
        limit = (self.profile or {}).get("max_input_tokens")
        if limit and prompt + reply > limit:
            raise PromptTooLongError(
                f"{self.model_name}: the prompt has {prompt} tokens and the reply may take {reply}, "
                f"but the model's context holds {limit}: shorten the prompt or lower max_tokens"
            )

    def _result(
        self, prompt: int, written: Written, settings: Mapping[str, Any], stop: Sequence[str]
    ) -> ChatResult:
        decode = self._tokenizer.decode
        text = decode(written.tokens, skip_special_tokens=True)
        cut = min((at for word in stop if word and (at := text.find(word)) >= 0), default=len(text))
        shown = len(written.tokens)
        if cut < len(text):
            lengths = (
                len(decode(written.tokens[:n], skip_special_tokens=True)) for n in range(shown)
            )
            shown = sum(one < cut for one in lengths)
        about: dict[str, Any] = {"model_name": self.model_name}
        about["finish_reason"] = "stop" if written.ended or cut < len(text) else "length"
        if settings["logprobs"]:
            count = settings["top_logprobs"] or 0
            rows = zip(written.tokens[:shown], written.logits, strict=False)
            content = [_place(decode, token, logits, count) for token, logits in rows]
            about["logprobs"] = {"content": content}
        made = len(written.tokens) + written.ended
        usage = UsageMetadata(input_tokens=prompt, output_tokens=made, total_tokens=prompt + made)
        message = AIMessage(text[:cut], response_metadata=about, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


@cache
def _field(name: str) -> TypeAdapter[Any]:
    """Return what checks a value as the field of this name."""
    field = HuggingFaceChat.model_fields[name]
    bounded: Any = Annotated[field.annotation, field]
    return TypeAdapter(bounded)


def _context(folder: Path) -> int | None:
    """Return a model's context in tokens, where its configuration says one.

    Raises:
        ModelError: The configuration can't be read.
        UsageError: The model is no causal one.
    """
    try:
        fields = parse_json((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: its config.json can't be read") from error
    fields = fields if isinstance(fields, dict) else {}
    if fields.get("is_encoder_decoder"):
        raise UsageError(f"{folder}: is an encoder-decoder model, and hf: takes causal ones")
    inner = fields.get("text_config")
    own = inner if isinstance(inner, dict) else fields
    found = own.get("max_position_embeddings")
    return found if isinstance(found, int) and found > 0 else None


def prompt_ids(tokenizer: Any, messages: Sequence[BaseMessage]) -> list[int]:
    """Return the token ids of a conversation, ready for the model's reply.

    A template without a place for a system message gets it before the first question; without any
    template, the messages' texts follow one another.

    Raises:
        ModelError: The chat template refuses the conversation.
    """
    if not tokenizer.chat_template:
        text = "\n\n".join(str(one.text) for one in messages)
        return list(tokenizer(text + "\n")["input_ids"])
    turns = [{"role": _ROLES.get(one.type, "user"), "content": str(one.text)} for one in messages]
    rendered = _rendered(tokenizer, turns)
    if rendered is None and len(turns) > 1 and turns[0]["role"] == "system":
        merged = f"{turns[0]['content']}\n\n{turns[1]['content']}"
        rendered = _rendered(tokenizer, [{**turns[1], "content": merged}, *turns[2:]])
    if rendered is None:
        raise ModelError("the model's chat template refuses this conversation")
    return list(tokenizer(rendered, add_special_tokens=False)["input_ids"])


def _rendered(tokenizer: Any, turns: Sequence[Mapping[str, str]]) -> str | None:
    from jinja2.exceptions import TemplateError

    try:
        return str(
            tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        )
    except TemplateError:
        return None


class Written(NamedTuple):
    """What a model wrote."""

    tokens: list[int]
    """Without the end token."""
    logits: Sequence[Any]
    """Of each place, the end token's among them: (vocabulary,); none unless log-probabilities are
    asked for."""
    ended: bool
    """Whether it came to its end by itself."""


def _written(model: Any, ids: Sequence[int], settings: Mapping[str, Any]) -> Written:
    import torch

    draw: dict[str, Any] = {"do_sample": False}
    if settings["temperature"]:
        draw = {"do_sample": True, "temperature": settings["temperature"], "top_k": 0}
        draw |= {"top_p": settings["top_p"]} if settings["top_p"] else {}
    seed = settings["seed"]
    given = torch.tensor([list(ids)], device=model.device)
    with torch.inference_mode(), nullcontext() if seed is None else torch.random.fork_rng():
        if seed is not None:
            torch.manual_seed(seed)
        made = model.generate(
            input_ids=given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=settings["max_tokens"],
            return_dict_in_generate=True,
            output_logits=bool(settings["logprobs"]),  # each place holds a row of the vocabulary
            **draw,
        )
    new = made.sequences[0, len(ids) :].tolist()
    ended = bool(new) and new[-1] in model.generation_config.eos_token_id
    return Written(new[:-1] if ended else new, [one[0] for one in made.logits or ()], ended)


def _place(decode: Any, token: int, logits: Any, candidates: int) -> dict[str, Any]:
    """Return a token's log-probability, and its place's likeliest candidates, in OpenAI's form."""
    chances = logits.float().log_softmax(dim=-1)
    best = chances.topk(min(candidates, len(chances)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return {
        "token": decode([token]),
        "logprob": float(chances[token]),
        "bytes": None,
        "top_logprobs": [{"token": decode([one]), "logprob": value} for one, value in pairs],
    }


def _hf(name: str, settings: Mapping[str, Any]) -> ChatModel:
    if not name:
        raise UsageError("the model's folder is missing: write 'hf:FOLDER'")
    check_settings("hf", settings, HuggingFaceChat)
    return checked_model(f"hf:{name}", {"folder": name, **settings}, HuggingFaceChat)


PROVIDER = ModelProvider(
    name="hf",
    spec="hf:FOLDER",
    summary="a causal Hugging Face model on this machine, by folder or downloaded hub name (extra "
    "`hf`); reports log-probabilities",
    make=_hf,
)
