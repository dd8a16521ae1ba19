"""Words and sentences, untrusted text."""
