"""The names of ragweave's own methods, retrievers and metrics, as types.

Written by `make sync` from the registries. Other packages' go by their declarations:
`build_graph(METHODS["draft_check"])`.
"""

from typing import Literal

MethodName = Literal[
    "direct",
    "cot",
    "concat",
    "post_fusion",
    "pruning",
    "summary",
    "concat_pf",
    "pf_concat",
    "blendfilter",
    "slimplm",
    "filco",
    "adaptive",
    "iter_retgen",
    "self_ask",
    "react",
    "flare",
    "self_eval",
    "skr_knn",
    "dos_rag",
    "ircot",
    "chain_of_note",
    "crag",
    "sure",
    "astute",
    "uncertainty_gate",
    "adaptive_rag",
]

RetrieverName = Literal[
    "auto",
    "bm25",
    "dense",
    "hybrid",
]

MetricName = Literal[
    "em",
    "f1",
    "accuracy",
    "coverage_em",
    "hit_at_1",
    "rouge_1",
    "rouge_2",
    "rouge_l",
    "unigram_f1",
    "contains",
    "answer_share",
    "unknown",
    "nm",
    "attribution",
    "faithfulness",
    "answer_relevance",
    "context_relevance",
    "correctness",
    "recall",
    "precision",
    "s_precision",
    "filter_precision",
    "filter_recall",
    "recall@1",
    "recall@5",
    "recall@10",
    "recall@20",
    "ndcg@10",
    "answer_recall",
    "output_precision",
]
