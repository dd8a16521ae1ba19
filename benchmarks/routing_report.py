"""Tables and pictures of `routing.py`: what it measured, on the screen and in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def show(console: Console, report: dict[str, Any], sets: Mapping[str, str]) -> None:
    """Print the tables."""
    heads = [*sets.values(), "all"]
    table = Table("fixed and ideal routes: accuracy", *heads)
    for key in report["fixed"]["all"]:
        table.add_row(key, *(f"{one[key]['mean']:.3f}" for one in report["fixed"].values()))
    console.print(table)
    table = Table("AUC of right without retrieval", *heads)
    for way, found in report["ways"].items():
        table.add_row(way, *(_cell(one["auc"]) for one in found.values()))
    console.print(table)
    table = Table("routed, at most 60 %: accuracy (retrieved; points over the better fixed)", *heads)
    for way, found in report["ways"].items():
        for order in ("by sureness", "by gain"):
            table.add_row(f"{way}, {order}", *(_point(v[order]["point"]) for v in found.values()))
    for way, routers in report["router"].items():
        for ways, found in routers.items():
            table.add_row(f"router {ways}: {way}", *(_point(one) for one in found.values()))
            dealt = [sum(one["dealings"]) / len(one["dealings"]) for one in found.values()]
            table.add_row("… points, mean of dealings", *(f"{100 * one:+.1f}" for one in dealt))
    console.print(table)
    table = Table("luck", *heads)
    for key in report["luck"]["all"]:
        table.add_row(key, *(f"{one[key]:.3f}" for one in report["luck"].values()))
    console.print(table)
    console.print_json(data=report["goals"])


def _cell(one: dict[str, float]) -> str:
    return f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _point(one: dict[str, Any]) -> str:
    points = one["difference"]["mean"] * 100
    return f"{one['accuracy']['mean']:.3f} ({one['retrieved']:.0%}; {points:+.1f})"


def draw(report: dict[str, Any], file: Path, sets: Mapping[str, str]) -> None:
    """Draw accuracy over the share of questions retrieved for."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(15, 7))
    names = {**sets, "all": "All"}
    for axis, (name, label) in zip(axes.flat, names.items(), strict=False):
        fixed = report["fixed"][name]
        ends = [fixed["never"]["mean"], fixed["one"]["mean"]]
        axis.plot([0, 1], ends, ":", color="grey", label="at random")
        axis.axhline(fixed["ideal: none | one"]["mean"], color="black", lw=0.8, ls="--")
        for way, order, style in (
            ("today: linear judge", "by sureness", "C1-"),
            ("draft + vectors + words", "by gain", "C0-"),
            ("draft + vectors + words + look", "by gain", "C2-"),
        ):
            found = report["ways"][way][name][order]["curve"]
            axis.plot(report["shares"], found, style, label=f"{way}, {order}")
        found = report["ways"]["draft + vectors + words"][name]["by gain"]["curve_many"]
        axis.plot(
            report["shares"],
            found,
            "C0-.",
            label="draft + vectors + words, IRCoT as the dear route",
        )
        axis.set_title(f"{label} (dashed: ideal none | one)", fontsize=10)
    axes.flat[-1].axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].legend(handles, labels, loc="center", frameon=False, fontsize=9)
    figure.supxlabel("share of questions retrieved for")
    figure.supylabel("In-accuracy")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
