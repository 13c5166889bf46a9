"""Seal values with the key of a group: AES-256-GCM, with keys derived from one secret (RFC 5869).

A sealed value is the version 256 as a 16-bit number, which no value of Kafka has, then 12 bytes of nonce, then the
AES-GCM ciphertext with its tag last. The key of the record is authenticated with it, so that a value is valid for its
own group and partition alone. The library is imported only when a value is sealed, as few links need it.
"""

from __future__ import annotations

import os
from typing import Final

from isthmus.model.cluster import Secret

KEY_BYTES: Final = 32
PURPOSE: Final = b"isthmus offsets copy 1\x00"
"""The prefix of a group's name in the key derivation, so that the secret gives no other keys."""
_VERSION: Final = b"\x01\x00"
_NONCE_BYTES: Final = 12


def group_key(secret: Secret, group: str) -> bytes:
    """Derive the key of one group: HKDF with SHA-256, without salt. It reveals neither the secret nor other keys."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = PURPOSE + group.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret.reveal().encode())


def is_sealed(value: bytes) -> bool:
    """Whether a value is one that `seal` made."""
    return value.startswith(_VERSION)


def seal(key: bytes, record_key: bytes, value: bytes) -> bytes:
    """Seal a value: only holders of the key can read it or make another one."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return _VERSION + nonce + AESGCM(key).encrypt(nonce, value, record_key)


def unseal(key: bytes, record_key: bytes, value: bytes) -> bytes | None:
    """Return the unsealed value; `None` if it was sealed with another key, for another record, or is damaged."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    begin = len(_VERSION)
    nonce, sealed = value[begin : begin + _NONCE_BYTES], value[begin + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, sealed, record_key)
    except (InvalidTag, ValueError):
        return None
