"""The Hugging Face scorer against the definition, on tiny random models; nothing is downloaded."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.extras import needs
from tests.tiny_models import make_tiny_llama, make_tiny_t5

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.roles import LogprobScorer
from ragweave.tools.providers import scorer_of

needs("torch", "transformers")

WORDS = ["who", "wrote", "hamlet", "william", "shakespeare", "in", "london", "context", "question", "answer", ":", "?"]
LIMIT = 1024


@pytest.fixture(scope="module", params=["causal", "seq2seq"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tmp_path_factory):
    make = make_tiny_llama if kind == "causal" else make_tiny_t5
    return make(tmp_path_factory.mktemp("scorer"))


@pytest.fixture(scope="module")
def scorer(folder):
    return scorer_of(f"hf:{folder}?batch_size=3&device=cpu")


def by_definition(model, tokenizer, prompt, continuation):
    """One pair, one token at a time: no padding, no batch, no shared code."""
    import torch

    target = [*tokenizer(continuation, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    total = 0.0
    for i, token in enumerate(target):
        with torch.no_grad():
            if model.config.is_encoder_decoder:
                source = torch.tensor([tokenizer(prompt)["input_ids"]])
                prefix = torch.tensor([[0, *target[:i]]])
                logits = model(input_ids=source, decoder_input_ids=prefix).logits
            else:
                ids = [*tokenizer(prompt)["input_ids"], *target[:i]]
                logits = model(input_ids=torch.tensor([ids])).logits
        total += math.log(logits[0, -1].double().softmax(-1)[token])
    return total


PAIRS = [(" ".join(WORDS[: 1 + i % 11]), " ".join(WORDS[i % 5 : i % 7])) for i in range(23)]


def test_batches_equal_the_one_by_one_definition(scorer, folder, kind):
    import transformers

    loader = transformers.AutoModelForCausalLM if kind == "causal" else transformers.AutoModelForSeq2SeqLM
    model = loader.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert isinstance(scorer, LogprobScorer)
    assert scorer.causal is (kind == "causal")
    scores = scorer.score(PAIRS)
    assert scores == pytest.approx([by_definition(model, tokenizer, *pair) for pair in PAIRS], abs=1e-4)
    assert all(score <= 0 for score in scores)
    assert scorer.score([]) == []


def test_threads_share_one_scorer(scorer):
    jobs = [[(word, "in london"), ("who wrote", word)] for word in WORDS]
    wanted = [scorer.score(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(scorer.score, jobs))
    assert got == [pytest.approx(want, abs=1e-4) for want in wanted]


def test_a_long_prompt_loses_its_beginning(scorer, kind):
    tail = "who wrote hamlet ? answer :"
    long, longer = f"{'london ' * 200}{tail}", f"{'context ' * 90}{'london ' * 200}{tail}"
    if kind == "causal":
        assert scorer.score([(long, "hamlet")]) == pytest.approx(scorer.score([(longer, "hamlet")]), abs=1e-4)
        with pytest.raises(UsageError, match=f"the model takes {LIMIT}"):
            scorer.score([("who", "london " * (LIMIT + 1))])


def test_what_can_not_score_is_named(tmp_path):
    with pytest.raises(UsageError, match="ExtractiveChat can't score texts"):
        scorer_of("extractive")
    with pytest.raises(UsageError, match="invalid settings"):
        scorer_of(f"hf:{tmp_path}?size=3")
    with pytest.raises(ModelError, match="is not on this machine"):
        scorer_of(f"hf:{tmp_path}/none")
