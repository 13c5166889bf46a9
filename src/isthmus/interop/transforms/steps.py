"""The transforms of a flow as they are written: a chain of steps, some of which have a predicate.

How Kafka Connect reads them: ConnectorConfig.java (`transformationStages`) of Kafka's connect/runtime. Each class has a
file in connect/transforms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isthmus.interop.deployment import Setting, Settings
from isthmus.interop.equivalents import truth
from isthmus.interop.names import split_list
from isthmus.model.links.transform import RecordPart

TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"
_KAFKAS: Final = "org.apache.kafka.connect.transforms."
_CLOUDERAS: Final = "com.cloudera.dim.kafka.connect.transformations.convert."
_PARTS: Final = {"Key": RecordPart.KEY, "Value": RecordPart.VALUE}
_OF_STEPS: Final = ("type", "predicate", "negate")
_BY_HAND: Final = (
    "Write it into transform of the link, by expressions or a Python function (docs/transforms.md); then fill in "
    "topics.include."
)


class NotTranslated(Exception):
    """A step that has no equivalent; the text is the reason, `todo` what to do."""

    def __init__(self, why: str, todo: str = _BY_HAND) -> None:
        super().__init__(why)
        self.todo = todo


@dataclass(frozen=True, slots=True)
class WrittenClass:
    """A transform or a predicate: its settings are those whose keys begin with `prefix`."""

    prefix: str
    settings: Settings

    def setting(self, key: str) -> Setting:
        written = f"{self.prefix}{key}"
        return self.settings.get(written, Setting("", written))

    def value(self, key: str) -> str:
        return self.setting(key).value.strip()

    def items(self, key: str) -> tuple[str, ...]:
        return split_list(self.value(key))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key.removeprefix(self.prefix) for key in self.settings if key.startswith(self.prefix))

    @property
    def kind(self) -> str:
        """The name of its class, without the package and the part of a record that it is for."""
        return self.value("type").rpartition(".")[2].partition("$")[0]

    @property
    def is_known(self) -> bool:
        """Whether the class is one of Kafka's, or of those that turn bytes into what these can read."""
        package = self.value("type").rpartition(".")[0]
        return f"{package}." in (".", _KAFKAS, f"{_KAFKAS}predicates.", _CLOUDERAS)


@dataclass(frozen=True, slots=True)
class ChainStep(WrittenClass):
    """A transform of the chain."""

    @property
    def part(self) -> RecordPart:
        """The part of a record whose fields it works on.

        :raises NotTranslated: Its class names none.
        """
        found = _PARTS.get(self.value("type").rpartition("$")[2])
        if found is None:
            raise NotTranslated(f"its class ends neither in {self.kind}$Key nor in {self.kind}$Value")
        return found

    @property
    def predicate(self) -> WrittenClass | None:
        name = self.value("predicate")
        return WrittenClass(f"{PREDICATES}.{name}.", self.settings) if name else None

    @property
    def is_negated(self) -> bool:
        try:
            return truth(self.value("negate") or "false")
        except ValueError as error:
            raise NotTranslated(f"negate {error}") from None

    def require_keys(self, *known: str) -> None:
        """Require that it has no other settings than those that are translated.

        :raises NotTranslated: It has.
        """
        others = sorted(self.keys - {*known, *_OF_STEPS})
        if others:
            raise NotTranslated(f"Isthmus does not know its setting {others[0]}")


def chain_steps(settings: Settings) -> Iterator[ChainStep]:
    """Yield the steps of a flow, in order."""
    given = settings.get(TRANSFORMS)
    for name in split_list(given.value) if given is not None else ():
        yield ChainStep(f"{TRANSFORMS}.{name}.", settings)


def is_of_chain(key: str) -> bool:
    """Return whether a setting belongs to the chain."""
    return key.startswith((f"{TRANSFORMS}.", f"{PREDICATES}.")) or key in (TRANSFORMS, PREDICATES)
