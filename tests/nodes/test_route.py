"""Questions about a whole collection: they count, list or compare what its documents, rows or columns are."""

from pathlib import Path

import pytest

from ragweave import KnowledgeBase
from ragweave.nodes.route import asks_about_all

ORDERS = {"orders.csv": "order,customer,items,status\n00001,Verra,2,open\n00002,Osk,3,returned\n00003,Verra,4,paid\n"}
CONTRACTS = {
    f"contracts/{name.lower()}-hosting.md": f"---\ntitle: Contract with {name} Hosting\n---\nThe fee is EUR 450."
    for name in ("Verra", "Osk", "Tarn")
}
HANDBOOK = {
    "handbook/pay.md": "# Pay\n\nEmployees are paid each month.",
    "handbook/leave.md": "# Leave\n\nEmployees have 28 days a year.",
    "handbook/expenses.md": "# Expenses\n\nEmployees hand in bills.",
}


@pytest.mark.parametrize(
    ("files", "about_all", "others"),
    [
        (
            ORDERS,
            [
                "How many orders did Verra place?",
                "Which customer buys the most?",
                "Which is the priciest order?",
                "Are any orders still open? How many?",
                "How much did returned orders cost us?",
            ],
            ["How many items does order 00003 include?", "What is the status of order 00003?"],
        ),
        (
            CONTRACTS,
            [
                "Do all contracts limit liability?",
                "How many contracts were signed in each year?",
                "What do we pay for all contracts together per month?",
            ],
            ["What is the most that Osk Hosting is liable for?", "What do we pay Osk Hosting per month?"],
        ),
        (
            HANDBOOK,
            ["How many documents mention leave?"],
            ["What do employees get per month?", "Which expenses are paid back?", "How many employees travel?"],
        ),
    ],
    ids=["orders", "contracts", "handbook"],
)
def test_questions_about_everything_are_told_from_others(
    tmp_path: Path, files: dict[str, str], about_all: list[str], others: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.index_paths([tmp_path / name for name in files])
        assert [text for text in [*about_all, *others] if asks_about_all(text, kb)] == about_all
