"""A connection to ZooKeeper that cannot be made."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import trustme

from isthmus.errors import AuthenticationFailed, HostError
from isthmus.kafka.zookeeper.connection import open_session
from isthmus.model.cluster import Cluster, Tls, ZooKeeper


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kazoo the error says what to install; nothing else needs it."""
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    cluster = Cluster(alias="old", bootstrap_servers=("a:1",), zookeeper=ZooKeeper(connect="z:2181"))

    with pytest.raises(HostError, match="needs kazoo") as error, open_session(cluster):
        pass

    assert "isthmus[zookeeper]" in error.value.hint


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[str]:
    """Something that greets whoever connects, over TLS or not, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with suppress(OSError):
                plain, _ = server.accept()
                with plain, plain if context is None else context.wrap_socket(plain, server_side=True) as stream:
                    stream.sendall(b"this is no ZooKeeper")
                    stream.recv(1 << 10)

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_tls_that_cannot_be_is_told() -> None:
    """A certificate that nobody vouches for, and a port that speaks none: each by what to do about it."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    for speaks, says in ((context, "certificate that is not trusted"), (None, "does not speak TLS")):
        with listening(speaks) as address:
            zookeeper = ZooKeeper(connect=f"{address}/kafka", tls=Tls())
            cluster = Cluster(alias="old", bootstrap_servers=("a:1",), zookeeper=zookeeper)
            with pytest.raises(AuthenticationFailed, match=says) as told, open_session(cluster):
                pass
            assert "clusters.old.zookeeper" in told.value.hint
