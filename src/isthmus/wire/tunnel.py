"""TLS with a broker on a connection that is TLS itself, as one through a relay is."""

from __future__ import annotations

import socket
import ssl
from typing import Final, Self, cast

_TAKEN_BYTES: Final = 64 << 10
_GIVEN_BYTES_MAX: Final = 64 << 10
"""What is encrypted at once waits in memory for as long as the connection takes nothing."""
_ENDED: Final = (ssl.SSLZeroReturnError, ssl.SSLEOFError)


def secured(sock: socket.socket, context: ssl.SSLContext, host: str) -> socket.socket:
    """The connection with TLS on it, after the handshake. What comes out can do what `wire` does with a socket.

    :raises OSError: The handshake failed; `sock` is left as it is.
    """
    if not isinstance(sock, ssl.SSLSocket):
        return context.wrap_socket(sock, server_hostname=host)
    inner = _InnerTls(sock, context, host)
    inner.shake_hands()
    return cast("socket.socket", inner)


class _InnerTls:
    """TLS on top of an `SSLSocket`, which Python's own wrapper cannot do: it takes the file descriptor below both."""

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, host: str) -> None:
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._leaving = memoryview(b"")
        self._accepted = 0
        # A socket lends these as they are.
        self.fileno = outer.fileno
        self.settimeout = outer.settimeout
        self.setblocking = outer.setblocking
        self.setsockopt = outer.setsockopt
        self.close = outer.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def shake_hands(self) -> None:
        """The handshake, on a blocking socket."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            except ssl.SSLError:
                # The alert tells the broker why.
                self._flush()
                raise
            else:
                self._flush()
                return

    def recv_into(self, buffer: memoryview) -> int:
        """How many bytes were received, 0 at the end; raises what `SSLSocket` does where there are none yet."""
        while True:
            try:
                return cast("int", self._tls.read(len(buffer), buffer))
            except ssl.SSLWantReadError:
                self._take()
            except _ENDED:
                return 0

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """How many bytes have left. Where it raises that it would block, some may be on their way, and the same bytes
        have to be given again, as is so with `SSLSocket`.
        """
        if not self._accepted:
            self._accepted = self._tls.write(memoryview(data)[:_GIVEN_BYTES_MAX])
        self._flush()
        accepted, self._accepted = self._accepted, 0
        return accepted

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything, on a blocking socket."""
        left = memoryview(data)
        while left:
            left = left[self.send(left) :]

    def _take(self) -> None:
        if data := self._outer.recv(_TAKEN_BYTES):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _flush(self) -> None:
        while self._leaving or self._outgoing.pending:
            if not self._leaving:
                self._leaving = memoryview(self._outgoing.read())
            self._leaving = self._leaving[self._outer.send(self._leaving) :]
