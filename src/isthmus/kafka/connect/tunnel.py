"""TLS with a broker over a connection that is TLS itself, like one through a relay."""

from __future__ import annotations

import socket
import ssl
from typing import Final, Self, cast

_TAKEN_BYTES: Final = 64 << 10
_GIVEN_BYTES_MAX: Final = 64 << 10
"""The limit of bytes encrypted at once, which wait in memory while the connection accepts none."""
_ENDED: Final = (ssl.SSLZeroReturnError, ssl.SSLEOFError)


def wrap_tls(sock: socket.socket, context: ssl.SSLContext, host: str) -> socket.socket:
    """Add TLS to the connection and do the handshake. The result supports all socket methods that `wire` uses.

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
        # These methods of the outer socket are used unchanged.
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
        """Do the handshake, on a blocking socket."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            except ssl.SSLError:
                # Send the alert, so that the broker knows the reason.
                self._flush()
                raise
            else:
                self._flush()
                return

    def recv_into(self, buffer: memoryview) -> int:
        """Receive bytes. Return their number, 0 at the end; without bytes raise the same errors as `SSLSocket`."""
        while True:
            try:
                return cast("int", self._tls.read(len(buffer), buffer))
            except ssl.SSLWantReadError:
                self._take()
            except _ENDED:
                return 0

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send bytes. Return their number. If it raises that it would block, some may be on their way, and the same
        bytes have to be given again, as with `SSLSocket`.
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
