"""The Hugging Face scorer against the definition, on tiny random models; nothing is downloaded."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.scoring import LogprobScorer, scorer_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = [
    "who",
    "wrote",
    "hamlet",
    "william",
    "shakespeare",
    "in",
    "london",
    "context",
    "question",
    "answer",
    ":",
    "?",
]
VOCAB = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
LIMIT = 64


def make_tokenizer(kind):
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCAB, unk_token="<unk>"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    form = "<s> $A" if kind == "causal" else "$A </s>"
    raw.post_processor = tokenizers.processors.TemplateProcessing(single=form, special_tokens=[("<s>", 1), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def make_model(kind):
    torch.manual_seed(7)
    if kind == "causal":
        config = transformers.LlamaConfig(
            vocab_size=len(VOCAB),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=LIMIT,
            initializer_range=0.5,
        )
        return transformers.LlamaForCausalLM(config)
    config = transformers.T5Config(
        vocab_size=len(VOCAB),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        initializer_factor=1.0,
    )
    return transformers.T5ForConditionalGeneration(config)


@pytest.fixture(scope="module", params=["causal", "seq2seq"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def parts(kind):
    return make_model(kind).eval(), make_tokenizer(kind)


@pytest.fixture(scope="module")
def scorer(parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorer")
    for one in parts:
        one.save_pretrained(folder)
    return scorer_of(f"hf:{folder}?batch_size=3&device=cpu")


def by_definition(model, tokenizer, prompt, continuation):
    """One pair, one token at a time: no padding, no batch, no shared code."""
    target = [VOCAB.get(word, 3) for word in continuation.split()] + [2]
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


PAIRS = [(" ".join(WORDS[: i % 11]), " ".join(WORDS[i % 5 : i % 7])) for i in range(23)]


def test_batches_equal_the_one_by_one_definition(scorer, parts, kind):
    assert isinstance(scorer, LogprobScorer)
    assert scorer.causal is (kind == "causal")
    scores = scorer.score(PAIRS)
    assert scores == pytest.approx([by_definition(*parts, *pair) for pair in PAIRS], abs=1e-4)
    assert all(one <= 0 for one in scores)
    assert scorer.score([]) == []


def test_threads_share_one_scorer(scorer):
    jobs = [[(word, "in london"), ("who wrote", word)] for word in WORDS]
    wanted = [scorer.score(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(scorer.score, jobs))
    assert got == [pytest.approx(want, abs=1e-4) for want in wanted]


def test_a_long_prompt_loses_its_beginning(scorer, kind):
    tail = "who wrote hamlet ? answer :"
    long, longer = f"{'london ' * 90}{tail}", f"{'context ' * 90}{'london ' * 90}{tail}"
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
