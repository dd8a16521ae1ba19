"""The grammars of `ragweave.tools.gbnf`, where a caller of the local model looks for them."""

from ragweave.tools.gbnf import id_list, one_of

__all__ = ["id_list", "one_of"]
