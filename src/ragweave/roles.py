"""The roles of models: one declaration, from which arguments, commands, docs and trained components derive.

A new role is declared here and gets its argument in `build_graph`; `make sync` adds it to the docs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")

RoleName = Literal["generator", "proxy", "judge", "rewriter", "selector", "router", "restater"]


@dataclass(frozen=True)
class Role:
    """What a model is used for.

    The name is the word for it everywhere: the argument, `--model NAME=SPEC`, what a component is trained as, the tag
    `role:NAME`, the key in `usage["by_role"]`.
    """

    name: RoleName
    summary: str
    fallback: RoleName | None = "generator"
    """The role whose model plays this one where none is given."""
    may_decide: bool = False
    """Whether a decision model may play it."""
    in_chat: bool = False
    """Whether only conversations have it."""

    @property
    def argument(self) -> str:
        """The argument of `build_graph` (`build_chat`): the name, but `model` for the generator, which all fall back to."""
        return self.name if self.fallback else "model"


_DECLARED = (
    Role("generator", "answers", fallback=None),
    Role("proxy", "drafts answers: a small model (SlimPLM, Adaptive)"),
    Role(
        "judge", "says whether a draft is known, what a passage is worth, and whether passages suffice", "proxy", True
    ),
    Role("rewriter", "writes search queries", "proxy"),
    Role("selector", "names the passages or sentences that help", may_decide=True),
    Role("router", "says how many searches a question takes", "proxy", True),
    Role("restater", "rewrites follow-ups in a conversation", in_chat=True),
)
ROLES: Mapping[str, Role] = {role.name: role for role in _DECLARED}
"""The roles by name. `build_graph` has an argument for each, and `build_chat` one for those of conversations alone."""


def player_of(name: RoleName, given: Collection[str]) -> RoleName:
    """Return the role whose model plays a role, of the roles that have a model; the generator always has one."""
    while name not in given and (fallback := ROLES[name].fallback):
        name = fallback
    return name


def arguments_of(models: Mapping[str, T]) -> dict[str, T]:
    """Return models by role as the arguments of `build_graph`; those of roles that only conversations have are left out."""
    return {role.argument: models[name] for name, role in ROLES.items() if name in models and not role.in_chat}
