"""Packages of other people."""

collect_ignore = ["draft_check"]  # the outside package's own tests run where it is installed
