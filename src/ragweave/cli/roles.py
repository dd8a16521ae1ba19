"""The models of a command, by flag or by option: `--judge judge/`, `--option judge=judge/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragweave.errors import UsageError

NAMED = {"judge": "judge", "rewriter": "rewriter", "generator": "model"}
"""Options that name a model, and the argument of `build_graph` that each one is."""

DEFAULT = "extractive"
"""The answering model where none is named."""


def with_named(
    flags: Mapping[str, str | None], texts: Iterable[str]
) -> tuple[dict[str, str], list[str]]:
    """Take the options that name a model to the flags.

    Args:
        flags: Model specs by `build_graph`'s arguments; None or "" where a flag was not given.
        texts: `name=value` options.

    Returns:
        The models that were named one way or the other, and the method's own options.

    Raises:
        UsageError: An option names no model, or a model is named twice.
    """
    models = {name: spec for name, spec in flags.items() if spec}
    named: dict[str, str] = {}
    rest: list[str] = []
    for text in texts:
        name, _, value = text.partition("=")
        if name.strip() not in NAMED:
            rest.append(text)
            continue
        key = NAMED[name.strip()]
        if not value.strip():
            raise UsageError(f"--option {name.strip()}= names no model: give a folder or a spec")
        if key in named or models.get(key, DEFAULT) not in (DEFAULT, value.strip()):
            raise UsageError(f"--option {text}: {NAMED[name.strip()]} is named twice; name it once")
        named[key] = value.strip()
    return {**models, **named}, rest


def by_role(models: Mapping[str, str]) -> dict[str, str]:
    """Return a run's models by role: what `build_graph` calls `model` plays `answer`."""
    return {"answer" if name == "model" else name: spec for name, spec in models.items()}
