"""Words and sentences, untrusted text."""

CLAIM = "Is this claim true? "
"""How a question begins that asks to verify a claim (FEVER)."""
