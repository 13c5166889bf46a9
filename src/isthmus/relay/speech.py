"""The protocol between agents, links and a relay: a head as HTTP has it, with a login; then bytes, or lines of JSON.

    CONNECT broker:9092   a link to a side, as to any HTTP proxy; the login is the side and the token
    JOIN                  an agent as a side; then lines both ways: who its brokers are, and which of them is asked for
    ACCEPT ticket         an agent's connection to the broker that this ticket asks for

The relay answers CONNECT and JOIN with a status; ACCEPT with none: what comes is the other end's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isthmus.errors import ConfigError

HEARTBEAT_S: Final = 5.0
SILENCE_S: Final = 20.0
"""A side that was not heard for so long has gone: NAT forgets connections without notice."""
OPENING_S: Final = 10.0
"""The time that an agent has to reach a broker and return."""
BUFFER_BYTES: Final = 64 << 10
"""The most bytes that a connection buffers, each way, at each of its readers and writers."""
END_OF_HEAD: Final = b"\r\n\r\n"
_STATUS_LENGTH: Final = 3
_LOGIN: Final = "authorization: basic "


class NotUnderstood(ValueError):
    """The message is not part of the relay's protocol."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a connection to a relay. `what` is a broker's address or a ticket, "" for neither."""

    verb: str
    what: str
    side: str
    token: str

    def encode(self) -> bytes:
        """Encode the head for the wire."""
        login = base64.b64encode(f"{self.side}:{self.token}".encode()).decode()
        return f"{self.verb} {self.what or '*'} HTTP/1.1\r\nAuthorization: Basic {login}\r\n\r\n".encode()

    @classmethod
    def parse(cls, data: bytes) -> Head:
        """Parse the head in these bytes. A CONNECT has its login in Proxy-Authorization, as any client sends it.

        :raises NotUnderstood: They are none.
        """
        try:
            first, *fields = data.decode().split("\r\n")
            verb, what, _ = first.split(" ")
            logins = [line for line in fields if _LOGIN in line.lower()]
            given = base64.b64decode(logins[0].rpartition(" ")[2], validate=True).decode() if logins else ":"
        except (UnicodeDecodeError, ValueError, binascii.Error) as error:
            raise NotUnderstood(str(error)) from None
        side, _, token = given.partition(":")
        return cls(verb, what, side, token)


def answer(status: int, reason: str) -> bytes:
    """Return the head of an answer."""
    plain = "".join(letter if letter.isprintable() else " " for letter in reason)
    return f"HTTP/1.1 {status} {plain}\r\n\r\n".encode()


async def read_status(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Read status and reason of an answer.

    :raises NotUnderstood: It is none.
    :raises OSError: None came.
    """
    try:
        head = await reader.readuntil(END_OF_HEAD)
        version, status, reason = head.decode().split("\r\n")[0].split(" ", 2)
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("it hung up") from None
    except (asyncio.LimitOverrunError, ValueError) as error:
        raise NotUnderstood(str(error)) from None
    if not version.startswith("HTTP/") or not (status.isascii() and status.isdigit() and len(status) == _STATUS_LENGTH):
        raise NotUnderstood("no answer as HTTP has it")
    return int(status), reason


async def read_line(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read the next line of the other side.

    :raises NotUnderstood: It is no object of JSON, too long, or nested too deep.
    :raises OSError: It hung up, or has not been heard of for too long.
    """
    try:
        async with asyncio.timeout(SILENCE_S):
            line = await reader.readuntil(b"\n")
        message = json.loads(line)
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("it hung up") from None
    except (asyncio.LimitOverrunError, ValueError, RecursionError) as error:
        raise NotUnderstood(str(error)) from None
    if not isinstance(message, dict):
        raise NotUnderstood("no object")
    return message


def line(**fields: object) -> bytes:
    """Encode a line."""
    return json.dumps(fields).encode() + b"\n"


class Tokens:
    """The tokens in a file, one a line, read again for every connection: a change needs no restart.

    A relay takes any of them, so that a new one can be added before the old one goes; agents show the first.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = self._read()

    @property
    def first(self) -> str:
        """The token to send."""
        return self._now()[0]

    def accept(self, token: str) -> bool:
        """Return whether it is one of them."""
        return any(hmac.compare_digest(each.encode(), token.encode()) for each in self._now())

    def _now(self) -> tuple[str, ...]:
        # The file may be half written at this moment.
        with contextlib.suppress(ConfigError):
            self._known = self._read()
        return self._known

    def _read(self) -> tuple[str, ...]:
        try:
            text = self._file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"the token in {self._file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}",
                hint="--token names a file that holds it, which only this user may read.",
            ) from None
        if not (found := tuple(filter(None, map(str.strip, text.splitlines())))):
            raise ConfigError(
                f"{self._file} holds no token",
                hint="Write a long random text into it: openssl rand -hex 32.",
            )
        return found
