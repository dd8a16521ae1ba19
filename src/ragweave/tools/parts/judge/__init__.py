"""The judge of kind `linear`: what it reads off a question and its draft, and its one line."""
