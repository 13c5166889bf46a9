"""Limits and `mm2` of a link of the file where an operator has set them while it runs: by a document in the ledger."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from isthmus.config.declared import check_not_both
from isthmus.config.live import check_settable, in_plain_values, with_settings
from isthmus.errors import ConfigError, PlanRefused
from isthmus.ledger.documents.kinds import Document, SettingsDocument
from isthmus.ledger.fencing import write_by_one
from isthmus.ledger.poison import pass_over
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.local.operator import operator
from isthmus.memory.links import now_ms, read_ledger
from isthmus.memory.named import NamedLink
from isthmus.model.link import Link
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import Flat, TextOrNull, instant_or_null


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidBy:
    """Who changed something, and since when."""

    since_ms: Annotated[int, "since", instant_or_null]
    by: TextOrNull


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInForce:
    """The settings of a link that can change while it runs. `written` has the file's values of the `changed` ones."""

    SCHEMA: ClassVar = "LiveSettings"

    link: str
    settings: dict[str, Any]
    changed: list[str]
    written: dict[str, Any]
    said_by: Flat[SaidBy]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidSettings:
    """The settings of a link that an operator changed in place of the file."""

    changed: Mapping[str, Any]
    said_by: Flat[SaidBy]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """The settings of a link that an operator set in place of the file, by dotted key of links[]; null for the default.

    `since_ms` is when they were changed last, -1 for never, and `by` the operator who did.
    """

    changed: Mapping[str, Any] = field(default_factory=dict)
    since_ms: int = -1
    by: str = ""

    def of(self, link: Link) -> Link:
        """Return the link with these settings applied.

        :raises ConfigError: A setting cannot be used.
        """
        return with_settings(link, self.changed)

    def in_force(self, link: Link) -> SettingsInForce:
        """Return what is in force, the values of the file where they differ, and who changed them. `link` is as the
        file has it.
        """
        written = in_plain_values(link)
        return SettingsInForce(
            link=link.name,
            settings=in_plain_values(self.of(link)),
            changed=list(self.changed),
            written={key: written[key] for key in self.changed},
            said_by=SaidBy(since_ms=self.since_ms, by=self.by),
        )

    def summarize(self) -> SaidSettings | None:
        """Return what was set, and by whom; `None` if all is as the file says."""
        by = SaidBy(since_ms=self.since_ms, by=self.by)
        return SaidSettings(changed=self.changed, said_by=by) if self.changed else None


def settings_of(link: Link, documents: Mapping[str, Document]) -> LiveSettings:
    """Return what an operator has set of a link; nothing where it no longer fits the file."""
    document = SettingsDocument.find(documents, link.name)
    if document is None:
        return LiveSettings()
    try:
        values = {key: json.loads(value) for key, value in document.settings}
        found = LiveSettings(changed=values, since_ms=document.since_ms, by=document.by)
        found.of(link)
    except (ConfigError, ValueError, RecursionError) as error:
        pass_over(f"the record {document.key}", error)
        return LiveSettings()
    return found


async def read_settings(one: NamedLink) -> LiveSettings:
    """Read what an operator has set of a link in place of what the configuration says.

    :raises ConfigError: There is no such link.
    :raises ClusterError: The ledger at the target cannot be read.
    """
    return settings_of(one.link, (await read_ledger(one.target)).of(one.name).documents)


async def write_settings(
    one: NamedLink,
    settings: Mapping[str, Any],
    *,
    unset: Collection[str] = (),
    reset: bool = False,
    known: LiveSettings | None = None,
    dry_run: bool = False,
) -> LiveSettings:
    """Apply these settings to the link, and the values of the file to those in `unset`, or with `reset` to all that was
    set before; its controller follows within a second, without a new lease. `known` are the settings that the caller
    saw when it looked, by default those of now. What was set before it was declared can be taken back, and nothing else
    be set.

    :raises ConfigError: There is no such link, it is declared, a key cannot be set, a value is not possible, or
        something is both set and unset.
    :raises PlanRefused: The settings were changed since.
    :raises ClusterError: The ledger at the target cannot be read or written.
    """
    link = one.link
    if settings and one.name in (one.configuration.declared or ()):
        raise ConfigError(
            f"link {one.name} is declared, not written in the file",
            hint=f"isthmus link update {one.name} --set KEY=VALUE changes its settings.",
        )
    check_not_both(settings, unset)
    for key in (*settings, *unset):
        check_settable(link.name, key)
    known = await read_settings(one) if known is None else known
    before = {} if reset else {key: value for key, value in known.changed.items() if key not in unset}
    wanted = dict(sorted({**before, **settings}.items()))
    found = LiveSettings()
    if wanted == known.changed:
        found = known
    elif wanted:
        found = LiveSettings(changed=wanted, since_ms=now_ms(), by=operator())
    found.of(link)

    async def change() -> LedgerChange:
        held = await read_settings(one)
        # A writer that was fenced half-way may read back its own document.
        if held not in (known, found):
            raise changed_meanwhile("settings", one.name, since_ms=held.since_ms, by=held.by)
        values = tuple((key, json.dumps(value)) for key, value in wanted.items())
        document = SettingsDocument(link=one.name, settings=values, since_ms=found.since_ms, by=found.by)
        return document if wanted else Deletion(document.key)

    if not dry_run and (found != known or reset):
        replication_factor = one.configuration.ledger.replication_factor
        await write_by_one(one.target, one.name, change, role="settings", replication_factor=replication_factor)
    return found


def changed_meanwhile(what: str, link: str, *, since_ms: int, by: str) -> PlanRefused:
    """Return the error that the settings were changed meanwhile; `since_ms` is -1 where they were reset."""
    news = (
        f"{by or 'another operator'} changed them at {written_instant(since_ms)}"
        if since_ms >= 0
        else "they were reset"
    )
    return PlanRefused(
        f"the {what} of link {link} have changed since they were read: {news}",
        hint=f"Look at them (isthmus {what} {link}) and ask again.",
    )
