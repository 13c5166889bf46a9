"""Which client quotas Isthmus set, as the ledger remembers them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import ClassVar, Self

from isthmus.ledger.document import DocumentOfLink
from isthmus.model.quotas import MadeQuota, QuotaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDocument(DocumentOfLink):
    """A quota at the target that the link set to `value`, or took back where there is none.

    Without `is_certain` it was about to, and what came of it is not known: it may be as `before` still. Without a
    document no quota that is there is ever changed.
    """

    KIND: ClassVar[str] = "quota"

    user: str
    client_id: str | None
    limit: str
    value: float | None
    before: float | None
    is_certain: bool

    @classmethod
    def of(cls, link: str, key: QuotaKey, made: MadeQuota) -> Self:
        """What is remembered of one quota."""
        return cls(
            link=link,
            user=key.user,
            client_id=key.client_id,
            limit=key.limit,
            value=made.value,
            before=made.before,
            is_certain=made.is_certain,
        )

    @property
    def quota(self) -> QuotaKey:
        """Which quota it is."""
        return QuotaKey(self.user, self.client_id, self.limit)

    @property
    def made(self) -> MadeQuota:
        """What the link did to it."""
        return MadeQuota(value=self.value, before=self.before, is_certain=self.is_certain)

    def _path(self) -> tuple[str, ...]:
        # Users may have any name.
        return (hashlib.sha256(json.dumps(list(self.quota)).encode()).hexdigest()[:32],)
