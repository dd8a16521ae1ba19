"""The Hugging Face scorer against the definition, on tiny random models; nothing is downloaded."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers import HuggingFaceScorer, LogprobScorer

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


def by_definition(model, tokenizer, prompt, continuation, *, end_token=True):
    """One pair, one token at a time: no padding, no batch, no shared code."""
    target = [VOCAB.get(word, 3) for word in continuation.split()] + [2] * end_token
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


texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(texts, texts), max_size=7), end_token=st.booleans())
def test_batches_equal_the_one_by_one_definition(parts, pairs, end_token):
    model, tokenizer = parts
    scorer = HuggingFaceScorer(model, tokenizer, batch_size=3, end_token=end_token)
    scores = scorer.score(pairs)
    wanted = [by_definition(model, tokenizer, p, c, end_token=end_token) for p, c in pairs]
    assert scores == pytest.approx(wanted, abs=1e-4)
    assert all(score <= 0 for score in scores)


def test_scores_tell_pairs_apart(parts):
    scorer = HuggingFaceScorer(*parts)
    scores = scorer.score(
        [
            ("who wrote hamlet ?", "william shakespeare"),
            ("context in london", "william shakespeare"),
            ("who wrote hamlet ?", "london"),
        ]
    )
    assert len({round(score, 3) for score in scores}) == 3


def test_the_batch_size_does_not_matter(parts):
    pairs = [(" ".join(WORDS[: i % 11]), " ".join(WORDS[i % 5 : i % 7])) for i in range(23)]
    one = HuggingFaceScorer(*parts, batch_size=1).score(pairs)
    many = HuggingFaceScorer(*parts, batch_size=16).score(pairs)
    assert many == pytest.approx(one, abs=1e-4)


def test_a_scorer_says_whether_its_model_is_causal(kind, parts):
    assert HuggingFaceScorer(*parts).causal is (kind == "causal")


def test_no_pairs_and_empty_texts(parts):
    assert isinstance(HuggingFaceScorer(*parts), LogprobScorer)
    scorer = HuggingFaceScorer(*parts, end_token=False)
    assert scorer.score([]) == []
    assert scorer.score([("who", "")]) == [0.0]
    assert scorer.score([("", "london")])[0] < 0


def test_threads_share_one_scorer(parts):
    scorer = HuggingFaceScorer(*parts, batch_size=2)
    jobs = [[(word, "in london"), ("who wrote", word)] for word in WORDS]
    wanted = [scorer.score(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(scorer.score, jobs))
    assert got == [pytest.approx(want, abs=1e-4) for want in wanted]


def test_a_long_prompt_loses_its_beginning(parts):
    scorer = HuggingFaceScorer(*parts, max_tokens=10)
    tail = "who wrote hamlet ? answer :"
    long, longer = f"{'london ' * 40}{tail}", f"{'context ' * 90}{'london ' * 40}{tail}"
    assert scorer.score([(long, "shakespeare")]) == pytest.approx(scorer.score([(longer, "shakespeare")]), abs=1e-4)


def test_a_continuation_longer_than_the_model_is_the_callers_mistake(parts):
    scorer = HuggingFaceScorer(*parts, max_tokens=LIMIT)
    with pytest.raises(UsageError, match=f"the model takes {LIMIT}"):
        scorer.score([("who", "london " * (LIMIT + 1))])


def test_a_model_left_in_training_mode_scores_without_dropout(kind):
    model = make_model(kind).train()
    scorer = HuggingFaceScorer(model, make_tokenizer(kind))
    pair = [("who wrote hamlet ?", "william shakespeare")]
    assert scorer.score(pair) == scorer.score(pair)


def test_a_saved_model_loads_by_its_folder(parts, tmp_path):
    model, tokenizer = parts
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pairs = [("who wrote hamlet ?", "shakespeare")]
    loaded = HuggingFaceScorer(tmp_path, device="cpu").score(pairs)
    assert loaded == pytest.approx(HuggingFaceScorer(model, tokenizer).score(pairs), abs=1e-4)


def test_a_folder_without_a_model_is_one_clear_line(tmp_path):
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(ModelError, match="can't load the scorer model") as caught:
        HuggingFaceScorer(str(tmp_path)).score([("a", "b")])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"batch_size": 0}, "batch_size"), ({"max_tokens": 0}, "max")],
)
def test_options_out_of_range(options, word):
    with pytest.raises(UsageError, match=word):
        HuggingFaceScorer("anything", **options)


def test_a_loaded_model_needs_its_tokenizer(parts):
    with pytest.raises(UsageError, match="needs its tokenizer"):
        HuggingFaceScorer(parts[0])


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setattr("ragweave.tools.models.weights.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"ragweave\[hf\]"):
        HuggingFaceScorer("anything").score([("a", "b")])


def test_a_score_that_is_no_number_is_an_error(kind):
    model = make_model(kind)
    for weights in model.parameters():
        weights.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="log-probability nan"):
        HuggingFaceScorer(model, make_tokenizer(kind)).score([("who", "shakespeare")])
