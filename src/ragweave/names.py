"""The names of ragweave's own methods, retrievers and metrics, as types.

Methods are listed here by hand; `make sync` writes the metrics. A method of another package is passed as its
declaration: `build_graph(METHODS["draft_check"])`.
"""

# ruff: noqa: RUF041 - several names a line

from typing import Literal

MethodName = Literal[
    Literal["direct", "cot", "concat", "post_fusion", "pruning", "summary", "concat_pf", "pf_concat"],
    Literal["blendfilter", "slimplm", "filco", "adaptive", "iter_retgen", "self_ask", "react", "agentic"],
    Literal["flare", "self_eval", "skr_knn", "dos_rag", "ircot", "chain_of_note", "crag", "sure", "astute"],
    Literal["uncertainty_gate", "adaptive_rag", "search_r1", "search_o1", "main_rag", "decompose", "research"],
    Literal["exhaustive", "table_query"],
]

RetrieverName = Literal["auto", "bm25", "dense", "hybrid", "graph"]
Preference = Literal["newest"]

MetricName = Literal[
    Literal["em", "f1", "accuracy", "coverage_em", "hit_at_1", "rouge_l", "rouge_1", "rouge_2", "unigram_f1"],
    Literal["contains", "answer_share", "squad_em", "squad_f1", "filco_em", "filco_f1", "unknown", "nm"],
    Literal["attribution", "citation_recall", "citation_precision", "faithfulness", "answer_relevance"],
    Literal["context_relevance", "correctness", "recall", "found", "precision", "s_precision", "filter_recall"],
    Literal["recall@1", "recall@5", "recall@10", "recall@20", "recall@100", "ndcg@10", "mrr@10"],
    Literal["answer_recall", "output_precision", "filco_precision", "api_calls", "tokens", "input_tokens"],
    Literal["output_tokens", "unread", "tokens_generator", "tokens_proxy", "tokens_rewriter", "tokens_judge"],
    Literal["tokens_small"],
]
