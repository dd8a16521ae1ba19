"""Small parts (ours, in no paper): encoders that train on a laptop's CPU in minutes."""

from __future__ import annotations
