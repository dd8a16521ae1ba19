"""Text utilities: normalisation, sentences, unknown answers, untrusted text."""
