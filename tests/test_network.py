"""Tests reach nothing but the loopback."""

from __future__ import annotations

import socket

import pytest
import pytest_socket


@pytest.mark.loopback
@pytest.mark.filterwarnings("ignore:A test tried to use socket:UserWarning")
def test_nothing_but_loopback_is_reached() -> None:
    with pytest.raises(pytest_socket.SocketConnectBlockedError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
