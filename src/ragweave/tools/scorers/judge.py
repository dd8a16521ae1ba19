"""A judge that is read by log-probabilities, as a chat model."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ragweave.tools.scorers.specs import LogprobScorer

VERDICTS = ("<Known(True)>", "<Known(False)>")


class ScoredJudge(BaseChatModel):
    """Says the verdict that a scorer finds likelier to follow the prompt (SlimPLM, released code).

    The released code compares the mean log-probability of a token; this compares the verdicts' whole ones.
    """

    scorer: Any
    """A `LogprobScorer`."""
    margin: float = 0.0
    """Log-probability by which `<Known(True)>` must lead."""
    released: bool = False
    """Whether the prompt takes the marks of Llama 2, on which the released judge was trained."""

    @property
    def _llm_type(self) -> str:
        return "ragweave-scored-judge"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        scorer: LogprobScorer = self.scorer
        prompt = self._text([str(one.text) for one in messages])
        known, unknown = scorer.score([(prompt, verdict) for verdict in VERDICTS])
        lead = known - unknown
        message = AIMessage(VERDICTS[0 if lead > self.margin else 1], response_metadata={"lead": lead})
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _text(self, texts: list[str]) -> str:
        if self.released:
            return f"[INST] <<SYS>>\n{texts[0]} <</SYS>>\n {texts[-1]} [/INST]"
        return "\n\n".join([*texts, ""])
