"""Models with sliding-window attention: llama.cpp reuses the cells behind their windows."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="writing a test model needs the gguf package")

import tiny_gguf
from ragweave.llamacpp.core import Core, CoreSettings
from ragweave.llamacpp.decoder import Decoder
from ragweave.llamacpp.gguf import read_gguf
from ragweave.llamacpp.job import GenerationJob, Request, ScoreJob
from ragweave.llamacpp.prefix import Shelf

WINDOW = 16
SETTINGS = CoreSettings(n_threads=1, n_ctx=256, n_batch=64, flash_attention=False)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    path = tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "windowed.gguf", window=WINDOW)
    made = Core(read_gguf(path), SETTINGS)
    yield made
    made.close()


def run(decoder: Decoder, *jobs: ScoreJob | GenerationJob) -> None:
    for one in jobs:
        decoder.add(one)
    steps = 0
    while decoder.busy:
        decoder.step()
        steps += 1
        assert steps < 10_000


def scored(decoder: Decoder, *pairs: tuple[list[int], list[int]]) -> tuple[list[object], int]:
    """Score pairs together; return the scores and how many tokens were not computed again."""
    events: list[list[object]] = [[] for _ in pairs]
    jobs = [ScoreJob(*pair, heard.append) for pair, heard in zip(pairs, events, strict=True)]
    run(decoder, *jobs)
    return [heard[-1] for heard in events], sum(job.reused for job in jobs)


def generation(core: Core, tokens: list[int], limit: int = 4) -> GenerationJob:
    return GenerationJob(tokens, Request(max_tokens=limit), core.vocabulary, [].append)


@pytest.mark.parametrize("limit", [0, 1 << 22])
@pytest.mark.parametrize("at_once", [1, 5])
def test_scores_do_not_depend_on_what_was_computed_before(
    core: Core, limit: int, at_once: int
) -> None:
    assert core.window == WINDOW
    for seed in range(6):
        draw = Random(seed)

        def drawn(low: int, high: int, draw: Random = draw) -> list[int]:
            return [draw.randrange(200) for _ in range(draw.randint(low, high))]

        heads = [drawn(20, 60) for _ in range(3)]
        pairs = [
            (draw.choice(heads)[: draw.randint(10, 60)] + drawn(1, 25), drawn(2, 6))
            for _ in range(20)
        ]
        expected = [scored(Decoder(core, 1, share=False), pair)[0][0] for pair in pairs]
        decoder = Decoder(core, 4, n_kept=200, shelf=Shelf(limit))
        got: list[object] = []
        reused = 0
        for start in range(0, len(pairs), at_once):
            scores, more = scored(decoder, *pairs[start : start + at_once])
            got += scores
            reused += more
        assert got == pytest.approx(expected, abs=2e-3)
        assert reused > 0


def test_samples_of_one_prompt_compute_it_once(core: Core) -> None:
    decoder = Decoder(core, 4)
    jobs = [generation(core, list(range(50)), 1) for _ in range(6)]
    run(decoder, *jobs)
    assert [job.reused for job in jobs] == [0] + [49] * 5


def test_a_dialogue_goes_on_from_main_memory(core: Core) -> None:
    """A copy holds the last window, so that a prompt goes on at its end, and nowhere before."""
    shelf = Shelf(1 << 22)
    decoder = Decoder(core, 1, n_kept=0, shelf=shelf)
    first = generation(core, list(range(60)))
    run(decoder, first, generation(core, list(range(100, 150))))
    assert shelf.size
    following, branching = [*first.tokens, 7, 8], [*range(50), 9, 8, 7]
    for tokens, reused in ((following, len(first.tokens) - 1), (branching, 0)):
        after = generation(core, tokens)
        run(decoder, after)
        assert after.reused == reused
        alone = generation(core, tokens)
        run(Decoder(core, 1, share=False), alone)
        assert after.tokens == alone.tokens
        decoder = Decoder(core, 1, n_kept=0, shelf=shelf)
