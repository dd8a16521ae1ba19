"""Work on a Ray cluster of two nodes, one of which is lost: every question is answered, every file indexed once."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from tests import postgres_server
from tests.evaluation.conftest import Questions
from tests.extras import needs
from tests.openai_server import OpenAIServer, Reply

from ragweave.evaluation import EvalSettings, evaluate, read_report
from ragweave.evaluation.on_ray import run_on_ray
from ragweave.tools.cluster import connected
from ragweave.tools.knowledge import FileLimits, ServedKnowledgeBase
from ragweave.tools.knowledge.servers import index_on_ray

needs("ray")
# Read when ray is imported: without it, Ray takes the machine's own address for 127.0.0.1.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.loopback,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
_SMALL = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (root / "src", root))))
    head = {**_SMALL, "include_dashboard": False, "_system_config": {"health_check_period_ms": 500}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_node_may_be_lost(cluster: Any, questions: Questions, tmp_path: Path) -> None:
    second, folder = cluster.add_node(**_SMALL), tmp_path / "run"

    def lose() -> None:
        begun = [folder / f"shard-{part}-of-4" / "results.jsonl" for part in (1, 2)]
        while not all(path.exists() and path.read_text().count("\n") > 3 for path in begun):
            time.sleep(0.05)
        cluster.remove_node(second, allow_graceful=False)

    threading.Thread(target=lose, daemon=True).start()
    with OpenAIServer(lambda _: Reply("1931", (100, 10), delay=0.1)) as server:
        settings = EvalSettings(data=questions(80), models={"generator": f"openai:m?base_url={server.base_url}"})
        summary = run_on_ray(
            partial(evaluate, settings, folder, concurrency=2), folder, address=cluster.address, shards=4
        )
        assert (summary.answered + summary.skipped, summary.exit_code) == (80, 0)
        assert server.count <= 80 + 4  # those under way on the lost node
    assert read_report(folder).lines[0].answered == 80


@pytest.mark.parametrize("kind", ["lance", "pg"])
def test_a_node_may_be_lost_while_files_are_indexed(kind: str, cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip({"lance": "lancedb", "pg": "pgvector"}[kind])
    if kind == "pg" and postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL with pgvector")
    second, files = cluster.add_node(**_SMALL), tmp_path / "files"
    files.mkdir()
    for number in range(40):
        lines = (f"Ship {number} carries crate {crate} to harbour {crate * number}.\n\n" for crate in range(60))
        (files / f"{number}.txt").write_text("".join(lines), encoding="utf-8")
    with ExitStack() as stack:
        place = tmp_path / "kb" if kind == "lance" else f"{stack.enter_context(postgres_server.postgres())}#kb"
        kb = stack.enter_context(ServedKnowledgeBase(f"{kind}:{place}", settings={"size": 20}))
        (gone := files / "gone.txt").write_text("It is gone before the cluster comes.", encoding="utf-8")
        kb.index_paths([gone])
        gone.unlink()

        def lose() -> None:
            while len(kb.sources()) < 3:
                time.sleep(0.05)
            cluster.remove_node(second, allow_graceful=False)

        losing = threading.Thread(target=lose)
        losing.start()
        report = index_on_ray(f"{kind}:{place}", [str(files)], connected("A test", cluster.address), FileLimits())
        losing.join()
        count = len(kb)
        with ServedKnowledgeBase(f"lance:{tmp_path}/alone", settings={"size": 20}) as alone:
            alone.index_paths([files])
            assert Counter(map(_whole, kb.passages())) == Counter(map(_whole, alone.passages()))
    assert (report.added + report.unchanged, report.removed, report.passages) == (40, 1, count)


def _whole(passage: Document) -> tuple[str, str]:
    return passage.metadata["source"], passage.page_content
