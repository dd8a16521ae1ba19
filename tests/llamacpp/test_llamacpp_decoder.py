"""The decoder, stepped by hand: batches, shared beginnings, full contexts, failures.

Replies are compared token for token across batch shapes. That holds without flash attention,
where logits differ by about 1e-4; llama.cpp's flash attention for CPUs adds up in 16 bits, so
logits differ by about 1e-2 and a near tie may fall the other way.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from ragweave.errors import ModelError
from ragweave.llamacpp.core import Core, CoreSettings
from ragweave.llamacpp.decoder import Decoder
from ragweave.llamacpp.gguf import read_gguf
from ragweave.llamacpp.job import Finished, GenerationJob, Request, ScoreJob
from ragweave.llamacpp.prefix import Shelf
from ragweave.llamacpp.sampling import Sampling

QUESTIONS = [
    "the question and the answer",
    "Answer the question with the passages below.",
    "If the answer is not there, say Unknown.",
    "one by one to find what is relevant",
    "x",
    "12 + 30 = ?",
    "é à ü ß 漢字",
    "the model reads the document and the user asks in the text " * 6,
]


SETTINGS = CoreSettings(n_threads=1, n_ctx=1024, n_batch=64, flash_attention=False)


@pytest.fixture
def core(tiny: Path):
    made = Core(read_gguf(tiny), SETTINGS)
    yield made
    made.close()


def job(core: Core, text: str, **settings):
    events: list[object] = []
    request = Request(**{"max_tokens": 20, **settings})
    made = GenerationJob(core.vocabulary.encode(text), request, core.vocabulary, events.append)
    return made, events


def run(decoder: Decoder, *jobs) -> None:
    for one in jobs:
        decoder.add(one)
    steps = 0
    while decoder.busy:
        decoder.step()
        steps += 1
        assert steps < 10_000


def reply(made: GenerationJob) -> list[int]:
    return made.tokens[len(made.prompt) :]


def alone(core: Core, text: str, **settings) -> list[int]:
    made, _ = job(core, text, **settings)
    decoder = Decoder(core, 1, share=False)
    run(decoder, made)
    return reply(made)


def test_greedy_replies_are_the_same_together_and_alone(core: Core) -> None:
    expected = [alone(core, text) for text in QUESTIONS]
    decoder = Decoder(core, len(QUESTIONS))
    jobs = [job(core, text)[0] for text in QUESTIONS]
    run(decoder, *jobs)
    assert [reply(made) for made in jobs] == expected
    # Together: prompts in a few batches, then one batch a token.
    assert decoder.batches < 40


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_reply_beside_a_long_prompt_is_computed_apart_on_a_cpu_only(
    core: Core, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    computed, decode = [], core.decode
    monkeypatch.setattr(core, "in_memory", in_memory)
    monkeypatch.setattr(core, "decode", lambda runs: computed.append([*runs]) or decode(runs))
    decoder = Decoder(core, 2)
    short, _ = job(core, QUESTIONS[0])
    decoder.add(short)
    while len(reply(short)) < 2:
        decoder.step()
    long, _ = job(core, QUESTIONS[1] * 20)
    run(decoder, long)
    mixed = [
        runs
        for runs in computed
        if sum(len(one.tokens) for one in runs) >= 64 and any(len(one.tokens) == 1 for one in runs)
    ]
    assert bool(mixed) is not in_memory
    monkeypatch.undo()
    assert [reply(short), reply(long)] == [
        alone(core, QUESTIONS[0]),
        alone(core, QUESTIONS[1] * 20),
    ]


def test_sampling_with_a_seed_does_not_depend_on_the_company(core: Core) -> None:
    sampled = {"sampling": Sampling(temperature=0.8, top_p=0.9, seed=7)}
    expected = alone(core, QUESTIONS[0], **sampled)
    made, _ = job(core, QUESTIONS[0], **sampled)
    others = [job(core, text, sampling=Sampling(temperature=1.0))[0] for text in QUESTIONS[1:]]
    run(Decoder(core, 8), *others[:3], made, *others[3:])
    assert reply(made) == expected


def test_samples_of_one_prompt_compute_it_once(core: Core) -> None:
    decoder = Decoder(core, 4)
    jobs = [
        job(core, QUESTIONS[-1], sampling=Sampling(temperature=1.0, seed=i))[0] for i in range(10)
    ]
    run(decoder, *jobs)
    prompt = len(jobs[0].prompt)
    # Each sample computes the prompt's last token anew, for its own logits, and its reply but for
    # the last token.
    assert decoder.computed == prompt + 9 + 10 * 19
    assert [made.reused for made in jobs] == [0] + [prompt - 1] * 9
    assert len({tuple(reply(made)) for made in jobs}) > 1


def test_a_common_beginning_is_computed_once(core: Core) -> None:
    head = QUESTIONS[-1]
    decoder = Decoder(core, 8)
    jobs = [job(core, head + text)[0] for text in QUESTIONS[:5]]
    run(decoder, *jobs)
    shared = len(core.vocabulary.encode(head))
    assert all(made.reused >= shared - 2 for made in jobs[1:])
    assert [reply(made) for made in jobs] == [alone(core, head + text) for text in QUESTIONS[:5]]


def test_a_later_request_finds_the_beginning_kept(core: Core) -> None:
    decoder = Decoder(core, 2)
    first, _ = job(core, QUESTIONS[-1])
    run(decoder, first)
    # A dialogue goes on: the reply is part of the next prompt.
    following = GenerationJob(
        [*first.tokens, *core.vocabulary.encode(QUESTIONS[0])],
        Request(max_tokens=5),
        core.vocabulary,
        [].append,
    )
    run(decoder, following)
    assert following.reused == len(first.tokens) - 1


def test_a_context_of_one_sequence_gives_it_to_the_next_request(tiny: Path) -> None:
    core = Core(read_gguf(tiny), replace(SETTINGS, n_batch=1, n_parallel=1))
    assert core.n_sequences == 1
    decoder = Decoder(core, 1, shelf=Shelf(1 << 24))
    jobs = [job(core, QUESTIONS[-1] + text, max_tokens=3)[0] for text in ("", "x", "", "y")]
    for one in jobs:
        run(decoder, one)
    replies = [reply(made) for made in jobs]
    assert replies == [
        alone(core, QUESTIONS[-1] + text, max_tokens=3) for text in ("", "x", "", "y")
    ]
    core.close()


def test_the_least_recently_used_prefix_goes_first(core: Core) -> None:
    decoder = Decoder(core, 1, n_kept=1024)
    long = [f"{text} {QUESTIONS[-1] * 3}" for text in ("a", "b", "c", "d", "e", "f")]
    size = len(core.vocabulary.encode(long[0]))
    fit = 1024 // (size + 20)
    assert 2 <= fit < len(long) - 1
    for text in long[: fit + 1]:
        run(decoder, job(core, text)[0])
    again, _ = job(core, long[fit])
    run(decoder, again)
    assert again.reused == size - 1
    gone, _ = job(core, long[0])
    run(decoder, gone)
    assert gone.reused < 8


def test_what_is_kept_is_bounded(core: Core) -> None:
    decoder = Decoder(core, 1, n_kept=250)
    long = [f"{text} {QUESTIONS[-1] * 2}" for text in ("a", "b", "c", "d")]
    run(decoder, *(job(core, text)[0] for text in long))
    size = len(core.vocabulary.encode(long[0]))
    assert 125 < size < 250 - 20
    again = [job(core, text)[0] for text in reversed(long)]
    run(decoder, *again)
    assert [made.reused > 8 for made in again] == [True, False, False, False]
    # One that is longer than the bound is kept all the same: a dialogue goes on with it.
    huge = QUESTIONS[-1] * 6
    run(decoder, job(core, huge)[0])
    following, _ = job(core, huge)
    run(decoder, following)
    assert following.reused == len(following.prompt) - 1


def test_what_leaves_the_context_comes_back_from_main_memory(core: Core) -> None:
    long = [f"{text} {QUESTIONS[-1] * 2}" for text in ("a", "b", "c", "d")]
    expected = [alone(core, text) for text in long]
    shelf = Shelf(1 << 24)
    decoder = Decoder(core, 2, n_kept=0, shelf=shelf)
    run(decoder, *(job(core, text)[0] for text in long))
    computed = decoder.computed
    again = [job(core, text)[0] for text in long]
    run(decoder, *again)
    assert [made.reused for made in again] == [len(made.prompt) - 1 for made in again]
    assert decoder.computed - computed == sum(20 for _ in again)
    assert [reply(made) for made in again] == expected
    assert 0 < shelf.size < 1 << 24


@pytest.mark.parametrize("limit", [0, 1 << 24])
def test_attention_does_not_run_over_what_no_request_begins_like(core: Core, limit: int) -> None:
    first, second = (job(core, f"{text} {QUESTIONS[-1] * 2}")[0] for text in "ab")
    decoder = Decoder(core, 1, n_kept=1024, shelf=Shelf(limit))
    run(decoder, first)
    free = decoder.free
    decoder.add(second)
    decoder.step()
    begun = core.n_batch if len(second.prompt) > core.n_batch else len(second.prompt)
    if limit:
        assert decoder.free == core.n_ctx - begun > free
    else:
        assert decoder.free == free - begun
    run(decoder)
    again, _ = job(core, f"a {QUESTIONS[-1] * 2}")
    run(decoder, again)
    assert again.reused == len(again.prompt) - 1
    assert reply(again) == reply(first)


def test_what_a_waiting_request_begins_like_stays_in_the_context(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other, waiting = (f"{text} {QUESTIONS[-1] * 2}" for text in "aba")
    decoder = Decoder(core, 1, n_kept=1024, shelf=Shelf(1 << 24))
    run(decoder, job(core, kept)[0])
    monkeypatch.setattr(core, "restore", lambda *_: pytest.fail("a copy was taken"))
    jobs = [job(core, text)[0] for text in (other, waiting)]
    run(decoder, *jobs)
    assert jobs[1].reused == len(jobs[1].prompt) - 1


def test_what_a_conversation_goes_on_with_is_not_copied(core: Core) -> None:
    shelf, said = Shelf(1 << 24), core.vocabulary.encode(QUESTIONS[-1])
    decoder = Decoder(core, 1, n_kept=1024, shelf=shelf)
    for text in QUESTIONS[:3]:
        turn = GenerationJob(said, Request(max_tokens=5), core.vocabulary, [].append)
        run(decoder, turn)
        said = [*turn.tokens, *core.vocabulary.encode(text)]
    assert turn.reused > len(turn.prompt) // 2
    assert shelf.size == 0
    copied = len(turn.tokens) - 1
    run(decoder, job(core, "something else")[0])
    assert shelf.find(np.asarray(turn.tokens, np.int32))[1] == copied


def test_a_beginning_in_main_memory_is_worth_more_than_a_shorter_one_in_the_context(
    core: Core,
) -> None:
    head = QUESTIONS[-1] * 3
    decoder = Decoder(core, 1, n_kept=0, shelf=Shelf(1 << 24))
    run(decoder, *(job(core, text)[0] for text in (head + QUESTIONS[0], QUESTIONS[-1] + "x")))
    following, _ = job(core, head + QUESTIONS[1])
    run(decoder, following)
    assert following.reused >= len(core.vocabulary.encode(head)) - 2
    assert reply(following) == alone(core, head + QUESTIONS[1])


def random_tokens(core: Core, *sizes: int) -> list[list[int]]:
    draw = Random(1)
    return [[draw.randrange(256) for _ in range(size)] for size in sizes]


def generation(core: Core, tokens: list[int], max_tokens: int) -> GenerationJob:
    return GenerationJob(tokens, Request(max_tokens=max_tokens), core.vocabulary, [].append)


def test_a_head_that_running_requests_share_stays_shared(core: Core) -> None:
    """Copies take cells of their own: eight of a long head would fill the context."""
    head, *bodies = random_tokens(core, 300, *[40] * 8)
    batches = {}
    for limit in (0, 1 << 24):
        decoder = Decoder(core, 8, n_kept=100, shelf=Shelf(limit))
        run(decoder, *(generation(core, head + body, 3) for body in bodies))
        before = decoder.batches
        run(decoder, *(generation(core, [*head, *body, 7], 20) for body in bodies))
        batches[limit] = decoder.batches - before
    assert batches[1 << 24] <= batches[0]


def test_a_request_that_waits_for_room_is_not_copied_in_again_and_again(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, rest, other, *more = random_tokens(core, 60, 700, 400, 10, 50, 60)
    restored, restore = [], core.restore
    monkeypatch.setattr(core, "restore", lambda *given: restored.append(given) or restore(*given))
    decoder = Decoder(core, 4, n_kept=0, shelf=Shelf(1 << 24))
    for tokens in ([*head, *more[0]], more[1], more[2]):
        run(decoder, generation(core, tokens, 2))
    long = generation(core, head + rest, 5)
    run(decoder, generation(core, other, 300), long)
    assert len(restored) <= 2
    assert long.reused == len(head), "what it computed itself before it was put off is not counted"


def test_a_short_copy_is_used_where_a_long_one_would_not_fit(core: Core) -> None:
    head, long, short, other, company = random_tokens(core, 100, 750, 20, 40, 200)
    decoder = Decoder(core, 4, n_kept=0, shelf=Shelf(1 << 24))
    for tokens in (head + long, other, [*head[:-1], head[-1] ^ 1, *short], other[::-1]):
        run(decoder, generation(core, tokens, 2))
    decoder.add(generation(core, company, 30))
    for _ in range(4):
        decoder.step()
    following = generation(core, [*head[:-1], 255, 254], 2)
    run(decoder, following)
    assert following.reused == len(head) - 1


def test_a_copy_that_would_fill_the_context_is_cut(core: Core) -> None:
    prompt, other = random_tokens(core, 300, 40)
    shelf = Shelf(1 << 24)
    decoder = Decoder(core, 1, n_kept=0, shelf=shelf)
    for tokens, limit in ((prompt, None), (other, 2), (other[::-1], 2)):
        run(decoder, GenerationJob(tokens, Request(max_tokens=limit), core.vocabulary, [].append))
    following = generation(core, [*prompt, 1, 2], 2)
    run(decoder, following)
    assert following.reused == len(prompt)


def test_no_copy_is_made_of_what_can_t_be_held(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "state", lambda _: pytest.fail("copied for nothing"))
    decoder = Decoder(core, 1, n_kept=0, shelf=Shelf(20_000))
    run(decoder, *(generation(core, tokens, 2) for tokens in random_tokens(core, 600, 600, 600)))


def test_no_copy_is_made_without_room_for_it(core: Core) -> None:
    decoder = Decoder(core, 1, n_kept=0, shelf=Shelf())
    long = [f"{text} {QUESTIONS[-1] * 2}" for text in ("a", "b")]
    run(decoder, *(job(core, text)[0] for text in long))
    again, _ = job(core, long[0])
    run(decoder, again)
    assert again.reused < 8


def test_a_copy_that_does_not_fit_the_cache_is_computed_again(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [f"{text} {QUESTIONS[-1] * 2}" for text in ("a", "b")]
    decoder = Decoder(core, 1, n_kept=0, shelf=Shelf(1 << 24))
    run(decoder, *(job(core, text)[0] for text in long))
    monkeypatch.setattr(core, "restore", lambda *_: False)
    again, _ = job(core, long[0])
    run(decoder, again)
    assert again.reused < 8
    assert reply(again) == alone(core, long[0])


@pytest.mark.parametrize("seed", range(4))
def test_any_traffic_gets_the_replies_that_each_gets_alone(core: Core, seed: int) -> None:
    """Beginnings that are shared, left, copied out and back in a context that is too small."""
    draw = Random(seed)
    heads = [f"{letter} {QUESTIONS[-1] * draw.randint(1, 3)}" for letter in "abcd"]
    texts = [draw.choice(heads) + draw.choice(QUESTIONS[:6]) for _ in range(24)]
    limits = [draw.randint(1, 60) for _ in texts]
    decoder = Decoder(core, 6, n_kept=draw.choice([0, 200]), shelf=Shelf(1 << 20))
    jobs = [job(core, text, max_tokens=n)[0] for text, n in zip(texts, limits, strict=True)]
    for start in range(0, len(jobs), 8):
        run(decoder, *jobs[start : start + 8])
    expected = [alone(core, text, max_tokens=n) for text, n in zip(texts, limits, strict=True)]
    assert [reply(made) for made in jobs] == expected
    assert sum(made.reused for made in jobs) > 0


def test_requests_that_outgrow_the_context_together_all_finish(core: Core) -> None:
    texts = [f"{i} {QUESTIONS[-1]}" for i in range(6)]
    expected = [alone(core, text, max_tokens=220) for text in texts]
    computed = {}
    for limit in (0, 1 << 24):
        decoder = Decoder(core, 6, shelf=Shelf(limit))
        jobs = [job(core, text, max_tokens=220)[0] for text in texts]
        assert sum(len(made.prompt) + 220 for made in jobs) > 1024
        run(decoder, *jobs)
        assert [len(reply(made)) for made in jobs] == [220] * 6
        assert [reply(made)[:50] for made in jobs] == [tokens[:50] for tokens in expected]
        computed[limit] = decoder.computed
    # Those that had to wait go on from the copies of what they had computed.
    assert computed[1 << 24] < computed[0]


def test_a_reply_ends_where_the_context_ends(core: Core) -> None:
    made, events = job(core, QUESTIONS[0], max_tokens=None)
    run(Decoder(core, 2), made)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"
    assert len(made.tokens) == core.n_ctx + 1


def test_every_token_counts_towards_max_tokens(core: Core) -> None:
    # Bytes of unfinished characters show no text; they count all the same.
    grammar = r"root ::= [\u4e00-\u9fff]*"
    made, events = job(core, "x", max_tokens=7, grammar=grammar)
    run(Decoder(core, 1), made)
    assert isinstance(events[-1], Finished)
    assert events[-1].reply_tokens <= 7
    assert len(reply(made)) <= 7


def test_prompts_go_in_beside_replies_in_progress(core: Core) -> None:
    decoder = Decoder(core, 4)
    writing, _ = job(core, QUESTIONS[0], max_tokens=30)
    decoder.add(writing)
    for _ in range(3):
        decoder.step()
    before = len(reply(writing))
    decoder.add(job(core, QUESTIONS[-1] * 4, max_tokens=1)[0])
    for _ in range(3):
        decoder.step()
    assert len(reply(writing)) == before + 3
    assert decoder.running == 2


def test_a_short_prompt_does_not_wait_for_a_long_one(core: Core) -> None:
    decoder = Decoder(core, 4)
    slow, _ = job(core, QUESTIONS[-1] * 8, max_tokens=1)
    quick, events = job(core, QUESTIONS[0], max_tokens=1)
    decoder.add(slow)
    decoder.add(quick)
    decoder.step()
    assert isinstance(events[-1], Finished)
    assert not reply(slow)


def test_a_cancelled_request_frees_its_place(core: Core) -> None:
    decoder = Decoder(core, 1)
    first, heard = job(core, QUESTIONS[-1] * 4)
    second, _ = job(core, QUESTIONS[0])
    decoder.add(first)
    decoder.add(second)
    decoder.step()
    first.cancel()
    run(decoder)
    assert heard == []
    assert reply(second) == alone(core, QUESTIONS[0])


def test_only_the_request_that_fails_fails(core: Core) -> None:
    impossible, events = job(core, QUESTIONS[1], grammar=r"root ::= [^\x00-\UFFFFFFFF]")
    good, _ = job(core, QUESTIONS[0])
    run(Decoder(core, 4), impossible, good)
    assert isinstance(events[-1], ModelError)
    assert "can't be satisfied" in str(events[-1])
    assert reply(good) == alone(core, QUESTIONS[0])


def test_a_failed_batch_fails_only_the_faulty_request(core: Core) -> None:
    # A token outside the vocabulary makes llama_decode refuse the whole batch.
    events: list[object] = []
    bad = GenerationJob([1, core.vocabulary.size + 5, 2], Request(), core.vocabulary, events.append)
    good = [job(core, text)[0] for text in QUESTIONS[:3]]
    run(Decoder(core, 8), good[0], bad, *good[1:])
    assert isinstance(events[-1], ModelError)
    assert "llama_decode returned -1" in str(events[-1])
    assert [reply(made) for made in good] == [alone(core, text) for text in QUESTIONS[:3]]


def test_scores_and_replies_share_batches(core: Core) -> None:
    prompt, tail = (core.vocabulary.encode(text) for text in (QUESTIONS[1], QUESTIONS[2]))
    single: list[object] = []
    run(Decoder(core, 1, share=False), ScoreJob(prompt, tail, single.append))
    both: list[object] = []
    good, _ = job(core, QUESTIONS[0])
    run(Decoder(core, 4), good, *(ScoreJob(prompt, tail, both.append) for _ in range(5)))
    assert both == pytest.approx(single * 5, abs=1e-2 * len(tail))
    assert reply(good) == alone(core, QUESTIONS[0])
