"""Bearer tokens: the callers of the API, and their roles. A file keeps their hashes only."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import json
import os
import secrets
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from isthmus.config.reading.locked import exclusive
from isthmus.config.reading.places import user_folder
from isthmus.errors import ConfigError, HostError
from isthmus.model.text.plain import Hidden, plain

_PREFIX: Final = "isthmus_"
_RANDOM_BYTES: Final = 32
_SCHEMA_VERSION: Final = 1
_NAME_MAX: Final = 100


class Role(enum.StrEnum):
    """The rights of a token; each role includes the rights of those before it."""

    VIEWER = "viewer"
    """Look at everything."""
    OPERATOR = "operator"
    """Pause and resume, choose filters and limits, verify, try a failover."""
    ADMIN = "admin"
    """Everything: declare, promote, fail over, recover, delete."""

    def may(self, needed: Role) -> bool:
        """Return whether it is at least `needed`."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token in the file: its name, its role and the hash of the secret that the caller sends."""

    name: str
    role: Role
    created_at: str
    sha256: Hidden[str]


def default_tokens_file() -> Path:
    """Return the default file of tokens."""
    return user_folder() / "tokens.json"


class TokenFile:
    """Tokens in a file, which is read again when it has changed: a token that is revoked is refused at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether tokens were ever created. If all were revoked, no caller is admitted."""
        return self.path.exists()

    def all(self) -> tuple[Token, ...]:
        """Return the tokens, by name.

        :raises HostError: The file cannot be read, or is no file of tokens.
        """
        with self._lock:
            try:
                found = self.path.stat()
                seen = (found.st_mtime_ns, found.st_size, found.st_ino)
                if seen != self._seen:
                    self._tokens = _parse(json.loads(self.path.read_text(encoding="utf-8")))
                    self._seen = seen
            except FileNotFoundError:
                self._tokens, self._seen = (), None
            except OSError as error:
                raise HostError(f"the tokens in {self.path} cannot be read: {error.strerror}") from None
            except (ValueError, KeyError, TypeError):
                raise HostError(
                    f"{self.path} is no file of tokens", hint="Name another one, or create tokens again."
                ) from None
            return self._tokens

    def find(self, sent: str) -> Token | None:
        """Return the token that a caller sent, `None` if there is none. All are compared, each in constant time."""
        hashed, found = _hash(sent), None
        for token in self.all():
            if hmac.compare_digest(token.sha256, hashed):
                found = token
        return found

    def create(self, name: str, role: Role, *, dry_run: bool = False) -> str:
        """Add a token; return the secret for the caller, which is stored nowhere. With `dry_run` nothing is written.

        :raises ConfigError: There is one of that name, or the name cannot be used.
        :raises HostError: The file cannot be read or written.
        """
        if not name or len(name) > _NAME_MAX or not name.isprintable():
            raise ConfigError(f"{name!r} is no name for a token", hint=f"Use 1 to {_NAME_MAX} printable characters.")
        secret = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with self._changing(dry_run=dry_run) as tokens:
            if any(token.name == name for token in tokens):
                raise ConfigError(
                    f"there is a token named {name}", hint=f"Revoke it first: isthmus token revoke {name}."
                )
            tokens.append(Token(name=name, role=role, sha256=_hash(secret), created_at=at))
        return secret

    def revoke(self, name: str, *, dry_run: bool = False) -> None:
        """Remove a token. With `dry_run` nothing is written.

        :raises ConfigError: There is none of that name.
        :raises HostError: The file cannot be read or written.
        """
        with self._changing(dry_run=dry_run) as tokens:
            left = [token for token in tokens if token.name != name]
            if len(left) == len(tokens):
                names = ", ".join(token.name for token in tokens) or "none"
                raise ConfigError(f"there is no token named {name}", hint=f"There are {names}.")
            tokens[:] = left

    @contextlib.contextmanager
    def _changing(self, *, dry_run: bool) -> Iterator[list[Token]]:
        """Yield the tokens for a change: read, changed and written by one process at a time."""
        if dry_run:
            yield [*self.all()]
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path.parent):
                tokens = [*self.all()]
                yield tokens
                self._write(tokens)
        except OSError as error:
            raise self._unwritable(error) from None

    def _write(self, tokens: Iterable[Token]) -> None:
        kept = [{**plain(token), "sha256": token.sha256} for token in sorted(tokens, key=lambda each: each.name)]
        text = json.dumps({"schema_version": _SCHEMA_VERSION, "tokens": kept}, indent=2) + "\n"
        # Only its owner can read what mkstemp makes; a reader sees either the old file or the whole new one.
        number, beside = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}-")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(beside).replace(self.path)

    def _unwritable(self, error: OSError) -> HostError:
        return HostError(
            f"the tokens cannot be written to {self.path}: {error.strerror}", hint="Name another file with --tokens."
        )


def _parse(document: Any) -> tuple[Token, ...]:
    if document["schema_version"] != _SCHEMA_VERSION:
        raise ValueError("another version")
    return tuple(
        Token(
            name=str(each["name"]),
            role=Role(each["role"]),
            sha256=str(each["sha256"]),
            created_at=str(each["created_at"]),
        )
        for each in document["tokens"]
    )


def _hash(sent: str) -> str:
    # The hashed secret has 256 random bits: it needs no slow hash.
    return hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()
