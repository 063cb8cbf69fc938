"""The processes of a stage."""

from __future__ import annotations

import socket

import pytest

from hami_core.testing.parts import free_port


def test_free_port_is_held_for_a_server_that_may_share_it():
    port = free_port()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    for _ in range(2):  # a server may also start again
        with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
            assert server.getsockname()[1] == port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
