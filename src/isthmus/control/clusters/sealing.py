"""Values that only those can read who have the key of a group: AES-256-GCM, keys derived from one secret (RFC 5869).

A sealed value is the version 256 as a 16-bit number, which no value of Kafka's has, then 12 bytes of nonce, then what
AES-GCM makes of the value, its tag last. The key of the record is authenticated with it, so that a value holds for its
own group and partition alone. The library is loaded where something is sealed: few links do so.
"""

from __future__ import annotations

import os
from typing import Final

from isthmus.model.cluster import Secret

KEY_BYTES: Final = 32
PURPOSE: Final = b"isthmus offsets copy 1\x00"
"""What stands before a group's name where its key is derived, so that the secret gives no other keys."""
_VERSION: Final = b"\x01\x00"
_NONCE_BYTES: Final = 12


def group_key(secret: Secret, group: str) -> bytes:
    """The key of one group: HKDF with SHA-256, without salt. It tells nothing of the secret, nor of other keys."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = PURPOSE + group.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret.reveal().encode())


def is_sealed(value: bytes) -> bool:
    """Whether a value is one that `seal` made."""
    return value.startswith(_VERSION)


def seal(key: bytes, record_key: bytes, value: bytes) -> bytes:
    """A value that only who has the key can read, and nobody else can make."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return _VERSION + nonce + AESGCM(key).encrypt(nonce, value, record_key)


def unseal(key: bytes, record_key: bytes, value: bytes) -> bytes | None:
    """What was sealed; `None` if it was sealed with another key, for another record, or is damaged."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    begin = len(_VERSION)
    nonce, sealed = value[begin : begin + _NONCE_BYTES], value[begin + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, sealed, record_key)
    except (InvalidTag, ValueError):
        return None
