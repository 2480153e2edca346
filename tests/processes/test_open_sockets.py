import socket
import sys
from pathlib import Path

import pytest

from tieline.processes.open_sockets import connections_to, listening_ports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")


def test_a_port_is_there_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        assert port in listening_ports()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert client.getsockname()[1] not in listening_ports()
    assert port not in listening_ports()


def test_those_who_are_connected_are_counted_also_by_another_name_of_the_socket(tmp_path: Path) -> None:
    name, other = tmp_path / "socket", tmp_path / "link"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(name))
        server.listen()
        other.symlink_to(name)
        assert connections_to(name) == 0
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            first.connect(str(name))
            second.connect(str(name))
            taken, also_taken = server.accept()[0], server.accept()[0]
            assert (connections_to(name), connections_to(other)) == (2, 2)
            taken.close()
            also_taken.close()
