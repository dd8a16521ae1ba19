"""Metrics: pure functions, each with its source."""

from ragweave.evaluation.metrics.answers import (
    Right,
    accuracy,
    answer_share,
    contains,
    coverage_em,
    exact_match,
    f1,
    hit_at_1,
    not_majority,
    output_precision,
    squad_normalize,
    unigram_f1,
    unknown,
)
from ragweave.evaluation.metrics.citations import (
    attribution,
    citation_metrics,
    citation_precision,
    citation_recall,
)
from ragweave.evaluation.metrics.cost import JUDGE_ROLE, Prices, cost, read_prices
from ragweave.evaluation.metrics.judged import (
    answer_relevance,
    context_relevance,
    correctness,
    faithfulness,
)
from ragweave.evaluation.metrics.judgement import Judgement, JudgeQuestion, Judging, by_judge
from ragweave.evaluation.metrics.metric import Metric, MetricInfo, given_answer, primary_metric
from ragweave.evaluation.metrics.registry import METRICS, chosen_metrics, infos_of, metric_info
from ragweave.evaluation.metrics.retrieval import (
    answer_recall,
    filter_recall,
    ndcg_at,
    precision,
    recall,
    recall_at,
    s_precision,
)
from ragweave.evaluation.metrics.rouge import rouge_l, rouge_n
from ragweave.tools.prices import Price
from ragweave.tools.statistics import Comparison, Interval, bootstrap, compare

__all__ = [
    "JUDGE_ROLE",
    # declarations
    "METRICS",
    "Metric",
    "MetricInfo",
    "chosen_metrics",
    "given_answer",
    "infos_of",
    "metric_info",
    "primary_metric",
    # answers
    "accuracy",
    "answer_share",
    "contains",
    "coverage_em",
    "exact_match",
    "f1",
    "hit_at_1",
    "Right",
    "not_majority",
    "rouge_l",
    "rouge_n",
    "squad_normalize",
    "unigram_f1",
    "unknown",
    # passages
    "answer_recall",
    "filter_recall",
    "ndcg_at",
    "output_precision",
    "precision",
    "recall",
    "recall_at",
    "s_precision",
    # by a judge model
    "Judgement",
    "JudgeQuestion",
    "Judging",
    "answer_relevance",
    "by_judge",
    "context_relevance",
    "correctness",
    "faithfulness",
    # citations
    "attribution",
    "citation_metrics",
    "citation_precision",
    "citation_recall",
    # cost
    "Price",
    "Prices",
    "cost",
    "read_prices",
    # statistics
    "Comparison",
    "Interval",
    "bootstrap",
    "compare",
]
