"""Secrets that a person types in, and those in the system's keyring: `${prompt:...}` and `${keyring:...}`."""

from __future__ import annotations

import getpass
import importlib
import sys
from functools import cache
from typing import Final

_KEYRING: Final = "keyring"


class OutOfReach(Exception):
    """There is no way to ask. `hint` is the remedy."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@cache
def ask_password(what: str) -> str:
    """Ask a person on the terminal, without echo. The question comes once in a process, however often a file is read.

    :raises OutOfReach: There is no terminal, or the person gave up.
    """
    if not sys.stdin.isatty():
        raise OutOfReach(
            f"asks for {what}, and there is no terminal to ask on",
            "Give it by ${env:NAME} or ${file:/path} where no person can type it.",
        )
    try:
        return getpass.getpass(f"{what}: ")
    except EOFError:
        raise OutOfReach(f"asks for {what}, and none was typed", "Give the command again.") from None


@cache
def read_keyring(service: str, user: str) -> str:
    """Return a password from the system's keyring, read once in a process.

    :raises OutOfReach: The package keyring is not installed, the keyring cannot be read, or has nothing of that name.
    """
    try:
        keyring = importlib.import_module(_KEYRING)
    except ImportError:
        raise OutOfReach(
            f"refers to the keyring ({service}, {user}), which cannot be read without the package keyring",
            "Install it: pip install 'isthmus[keyring]'.",
        ) from None
    try:
        found = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise OutOfReach(
            f"refers to the keyring ({service}, {user}), which cannot be read: {type(error).__name__}",
            "Unlock it, or choose a backend (PYTHON_KEYRING_BACKEND).",
        ) from None
    if found is None:
        raise OutOfReach(
            f"refers to the keyring, which has nothing for {user} of {service}",
            f"Put it there: keyring set {service} {user}",
        )
    return str(found)
