"""The two handshakes with a proxy: SOCKS5 (RFC 1928, with RFC 1929 for logins) and HTTP CONNECT (RFC 9110, 9.3.6).

Both leave the broker's name to the proxy, as only the proxy's network may know it. They read exactly their own bytes,
as the next bytes belong to the broker. A relay (`isthmus relay`) is asked by HTTP CONNECT too, over TLS, so that its
token is not visible on the way.
"""

from __future__ import annotations

import base64
import ipaddress
import socket
import ssl
import struct
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import AuthenticationFailed, ClusterError, Unreachable
from isthmus.kafka.connect.address import split_address, written_address
from isthmus.kafka.connect.certificates import context_of
from isthmus.kafka.connect.exchange import limit
from isthmus.model.cluster import Cluster, Proxy

_HEAD_BYTES_MAX: Final = 16 << 10
_LOGIN_BYTES_MAX: Final = 255
_NO_LOGIN, _PASSWORD, _NOTHING_ACCEPTED = 0, 2, 0xFF
_REPLIES: Final = {
    1: "general failure",
    2: "its rules do not allow the connection",
    3: "the network is unreachable",
    4: "the host is unreachable or unknown",
    5: "connection refused",
    6: "the way is too long (TTL expired)",
    7: "it does not know CONNECT",
    8: "it does not know such addresses",
}
_NOT_ALLOWED: Final = 2


def connect(cluster: Cluster, proxy: Proxy, host: str, port: int, timeout_s: float) -> socket.socket:
    """Open a connection to `host:port` through the proxy.

    :raises Unreachable: The proxy does not answer, is not a proxy, or cannot connect.
    :raises AuthenticationFailed: The proxy refuses our login.
    """
    handshake = _Handshake(cluster, proxy, written_address(host, port), Deadline(timeout_s))
    address = split_address(proxy.address, cluster.alias)
    context = context_of(proxy.tls, cluster.alias, "proxy") if proxy.kind == "relay" else None
    try:
        sock = socket.create_connection(address, timeout=timeout_s)
    except OSError as error:
        raise handshake.away(error) from error
    try:
        handshake.take(sock)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=address[0])
            handshake.take(sock)
        if proxy.kind == "socks5":
            handshake.socks(host, port)
        else:
            handshake.http()
    except ssl.SSLCertVerificationError as error:
        sock.close()
        raise handshake.stranger(error) from error
    except OSError as error:
        sock.close()
        raise handshake.away(error) from error
    except BaseException:
        sock.close()
        raise
    return sock


class _Handshake:
    """One handshake on a blocking socket, at most until the deadline."""

    def __init__(self, cluster: Cluster, proxy: Proxy, destination: str, deadline: Deadline) -> None:
        self._cluster = cluster
        self._proxy = proxy
        self._destination = destination
        self._deadline = deadline
        self._who = f"the proxy {proxy} of {cluster.alias}"
        self._key = f"clusters.{cluster.alias}.proxy"

    def take(self, sock: socket.socket) -> None:
        """Use this socket from now on."""
        self._sock = sock
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("the port connects to itself")

    def socks(self, host: str, port: int) -> None:
        """Do the SOCKS5 handshake: greeting, login if required, and the request."""
        methods = [_NO_LOGIN] if self._proxy.username is None else [_NO_LOGIN, _PASSWORD]
        self._send(bytes((5, len(methods), *methods)))
        version, method = self._read(2)
        if version != 5:
            raise self._no_proxy_error()
        if method == _NOTHING_ACCEPTED:
            raise (
                self._login_missing_error()
                if self._proxy.username is None
                else self._login_error("takes no user and password")
            )
        if method == _PASSWORD:
            if max(map(len, self._login())) > _LOGIN_BYTES_MAX:
                raise self._login_error(f"can take no more than {_LOGIN_BYTES_MAX} bytes")
            self._send(b"\x01" + b"".join(bytes((len(text), *text)) for text in self._login()))
            if self._read(2)[1] != 0:
                raise self._login_error("refused the login")
        self._send(b"\x05\x01\x00" + _encode_host(host) + struct.pack(">H", port))
        version, reply, _, kind = self._read(4)
        if version != 5:
            raise self._no_proxy_error()
        if reply != 0:
            raise self._no_way_error(_REPLIES.get(reply, f"reply {reply}"), is_rule=reply == _NOT_ALLOWED)
        # Skip the address it connects from, which precedes the broker's first byte.
        self._read({1: 4, 4: 16}.get(kind) or self._read(1)[0])
        self._read(2)

    def http(self) -> None:
        """Do the HTTP handshake: CONNECT, and the head of the answer."""
        lines = [f"CONNECT {self._destination} HTTP/1.1", f"Host: {self._destination}"]
        if self._proxy.username is not None:
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(b':'.join(self._login())).decode()}")
        self._send("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        status, reason = self._head()
        if 200 <= status < 300:
            return
        if status == 407:
            raise (
                self._login_missing_error() if self._proxy.username is None else self._login_error("refused the login")
            )
        if self._proxy.kind == "relay":
            raise self._not_relayed_error(status, reason)
        raise self._no_way_error(f"HTTP status {status}", is_rule=400 <= status < 500)

    def away(self, error: OSError) -> ClusterError:
        """Build the error for a proxy that does not answer, or not completely."""
        return Unreachable(
            f"{self._who} does not answer: {getattr(error, 'reason', None) or error.strerror or error}",
            cluster=self._cluster.alias,
            hint=f"Check {self._key}: host and port, and that it can be reached from here and from Spark's executors.",
        )

    def stranger(self, error: ssl.SSLCertVerificationError) -> ClusterError:
        """Build the error for a relay with a certificate that is not trusted."""
        return AuthenticationFailed(
            f"{self._who} shows a certificate that is not trusted: {error.verify_message}",
            cluster=self._cluster.alias,
            hint=f"Give {self._key}.tls.ca_file the authority that signed the relay's certificate, and reach the relay "
            "by a name that is in it.",
        )

    def _head(self) -> tuple[int, str]:
        head = bytearray()
        while not head.endswith(b"\r\n\r\n"):
            head += self._read(1)
            if len(head) > _HEAD_BYTES_MAX or (len(head) == 5 and head != b"HTTP/"):
                raise self._no_proxy_error()
        _, status, reason, *_ = (*head.split(b"\r\n", 1)[0].split(b" ", 2), b"", b"")
        if not status.isdigit():
            raise self._no_proxy_error()
        return int(status), reason.decode(errors="replace")

    def _login(self) -> tuple[bytes, bytes]:
        password = "" if self._proxy.password is None else self._proxy.password.reveal()
        return (self._proxy.username or "").encode(), password.encode()

    def _no_proxy_error(self) -> ClusterError:
        name = {"socks5": "a SOCKS5", "http": "an HTTP"}.get(self._proxy.kind, "such a")
        return Unreachable(
            f"{self._who} does not answer as {name} proxy does",
            cluster=self._cluster.alias,
            hint=f"Check {self._key}: scheme (socks5 or http), host and port.",
        )

    def _login_missing_error(self) -> ClusterError:
        return AuthenticationFailed(
            f"{self._who} asks for a login",
            cluster=self._cluster.alias,
            hint=f"Give {self._key} a user in its url ({self._proxy.kind}://user@host:port) and a password.",
        )

    def _not_relayed_error(self, status: int, reason: str) -> ClusterError:
        return Unreachable(
            f"{self._who} does not connect to {self._destination}: {reason or status}",
            cluster=self._cluster.alias,
            hint=(
                f"isthmus relay join --as {self._proxy.username} has to run where these brokers can be reached; its "
                "log states why it cannot connect."
            ),
        )

    def _login_error(self, what: str) -> ClusterError:
        user = "" if self._proxy.kind == "relay" else f" for user {self._proxy.username}"
        return AuthenticationFailed(
            f"{self._who} {what}{user}",
            cluster=self._cluster.alias,
            hint=f"Check the user in {self._key}.url, and {self._key}.password.",
        )

    def _no_way_error(self, reason: str, *, is_rule: bool) -> ClusterError:
        hint = f"Let the proxy connect to {self._destination}: its rules name hosts and ports that are allowed."
        if not is_rule:
            hint = (
                f"The proxy is there, the broker is not: check that it runs, and that {self._destination} can be "
                f"reached from the proxy; clusters.{self._cluster.alias}.addresses gives brokers other addresses."
            )
        return Unreachable(
            f"{self._who} does not connect to {self._destination}: {reason}", cluster=self._cluster.alias, hint=hint
        )

    def _send(self, data: bytes) -> None:
        limit(self._sock, self._deadline)
        self._sock.sendall(data)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            limit(self._sock, self._deadline)
            part = self._sock.recv(size - len(data))
            if not part:
                raise ConnectionResetError("it hung up")
            data += part
        return data


def _encode_host(host: str) -> bytes:
    """Encode a host for SOCKS5: an IP address as such, anything else as a name for the proxy to look up."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode()
        return bytes((3, len(name), *name))
    return bytes((1 if address.version == 4 else 4, *address.packed))
