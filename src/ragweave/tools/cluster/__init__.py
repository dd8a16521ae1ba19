"""Work on the nodes of a Ray cluster: `connected` to it, a `Pool` of processes does jobs there."""

from ragweave.tools.cluster.connection import ADDRESS, LOCAL, check_address, connected, is_address
from ragweave.tools.cluster.node import Ask, Work
from ragweave.tools.cluster.pool import LostNodeError, NoNodeError, Pool
from ragweave.tools.cluster.process import Serve

__all__ = [
    "ADDRESS",
    "LOCAL",
    "Ask",
    "LostNodeError",
    "NoNodeError",
    "Pool",
    "Serve",
    "Work",
    "check_address",
    "connected",
    "is_address",
]
