"""The sessions of browsers: a random value in a cookie, valid for as long as the token exists."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from isthmus.web.access.tokens import Token, TokenFile

TERM_S: Final = 12 * 3600
"""A working day: then the token has to be given again."""
OPEN_MAX: Final = 20
"""The most sessions of one token."""
_RANDOM_BYTES: Final = 32


class Sessions:
    """The sessions of a server, a limit of each token: repeated logins end the oldest ones of that token only. No
    session outlives the server, or the token it was opened with.
    """

    def __init__(self, tokens: TokenFile, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, tuple[str, float]] = {}

    def open(self, secret: str) -> str | None:
        """Return the value of a cookie for this token, `None` if there is no such token.

        :raises HostError: The tokens cannot be read.
        """
        token = self._tokens.find(secret)
        if token is None:
            return None
        value = secrets.token_urlsafe(_RANDOM_BYTES)
        with self._lock:
            now = self._clock()
            self._open = {key: kept for key, kept in self._open.items() if kept[1] > now}
            own = [key for key, (sha256, _) in self._open.items() if sha256 == token.sha256]
            for key in own[: len(own) - OPEN_MAX + 1] if len(own) >= OPEN_MAX else ():
                del self._open[key]
            self._open[_hash(value)] = (token.sha256, now + TERM_S)
        return value

    def find(self, value: str) -> Token | None:
        """Return the token that a session was opened with, `None` if it is over or the token was revoked.

        :raises HostError: The tokens cannot be read.
        """
        with self._lock:
            kept, until = self._open.get(_hash(value), ("", 0.0))
        if self._clock() >= until:
            self.close(value)
            return None
        return next((token for token in self._tokens.all() if token.sha256 == kept), None)

    def close(self, value: str) -> None:
        """End a session, if there is one."""
        with self._lock:
            self._open.pop(_hash(value), None)


def _hash(value: str) -> str:
    # Looked up by its hash: the time of the look-up shows nothing of the value.
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
