"""The bodies of requests: what they may say, and within which bounds."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictInt

from isthmus.control.links.filtering import Filters
from isthmus.model.declaration import ASYNC
from isthmus.model.namespace import Namespace, NamespaceKind, NamespaceMap

_NUMBER_MAX: Final = (1 << 63) - 1
Text = Annotated[str, Field(max_length=300)]
_Patterns = Annotated[list[Text], Field(max_length=1000)]
_Number = Annotated[StrictInt, Field(ge=-_NUMBER_MAX, le=_NUMBER_MAX)]
_Scalar = StrictBool | _Number | FiniteFloat | Text | None
Bytes = Annotated[StrictInt, Field(ge=1, le=_NUMBER_MAX)]
Settings = Annotated[
    dict[Text, _Scalar | Annotated[list[_Scalar], Field(max_length=1000)]],
    Field(max_length=100, description="Keys of links[] in the file, such as limits.bytes_per_s; null for the default."),
]


class Body(BaseModel):
    """What requests have in common: a member that is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class FiltersBody(Body):
    """What a link is to select: each list replaces the one that holds, null leaves it."""

    topics_include: _Patterns | None = None
    topics_exclude: _Patterns | None = None
    groups_include: _Patterns | None = None
    groups_exclude: _Patterns | None = None

    @property
    def filters(self) -> Filters:
        """As the fabric takes them."""
        return Filters(
            topics_include=_patterns(self.topics_include),
            topics_exclude=_patterns(self.topics_exclude),
            groups_include=_patterns(self.groups_include),
            groups_exclude=_patterns(self.groups_exclude),
        )


def _patterns(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


class MapBody(Body):
    """A namespace of the source, and that of the target which follows it: the same one where none is named."""

    kind: NamespaceKind = "topic"
    source: Text
    target: Text | None = None
    exact: bool = False

    @property
    def map(self) -> NamespaceMap:
        """As the fabric takes it.

        :raises ConfigError: One of them can be no namespace.
        """
        target = self.source if self.target is None else self.target
        sides = (Namespace.of(prefix, self.kind, is_exact=self.exact) for prefix in (self.source, target))
        return NamespaceMap(source=next(sides), target=next(sides))


Maps = Annotated[list[MapBody], Field(max_length=1000)]


class MapsBody(Body):
    """Namespaces; all of them where none is named."""

    attached: Maps = Field(default_factory=list)

    @property
    def maps(self) -> tuple[NamespaceMap, ...]:
        """As the fabric takes them.

        :raises ConfigError: One of them can be no namespace.
        """
        return tuple(each.map for each in self.attached)


class EndBody(Body):
    """A cluster of the file; with its id it has to be that one."""

    alias: Text
    cluster_id: Text = ""


class LinkBody(MapsBody):
    """A link to be declared, in the words of `isthmus link describe -o json`."""

    link: Annotated[Text, Field(min_length=1)]
    source: EndBody | Text
    target: EndBody | Text
    mode: Text = ASYNC
    settings: Settings = Field(default_factory=dict)

    @property
    def ends(self) -> tuple[EndBody, EndBody]:
        """Both clusters."""
        source, target = (EndBody(alias=end) if isinstance(end, str) else end for end in (self.source, self.target))
        return source, target


class LinkChangeBody(Body):
    """What is to be changed of a declared link."""

    mode: Text | None = None
    settings: Settings = Field(default_factory=dict)


class LimitsBody(Body):
    """How much a link may take; null for the default."""

    bytes_per_s: Bytes | None = None
    bytes_in_flight: Bytes | None = None


class TopicsBody(Body):
    """Topics, as at the target; all that are concerned where none is named."""

    topics: _Patterns = Field(default_factory=list)


class NamespaceBody(Body):
    """A namespace to be declared, in the words of `isthmus namespace describe -o json`."""

    kind: NamespaceKind = "topic"
    namespace: Text
    exact: bool = False
    reserved: bool = False
    async_only: bool = False


class NamespaceChangeBody(Body):
    """What is to be changed of a namespace; null leaves it."""

    reserved: bool | None = None
    async_only: bool | None = None
    enforce: Annotated[bool | None, Field(description="Have access rules keep others out, or take them back.")] = None
    keep: Annotated[
        list[Text], Field(max_length=100, description="With enforce: who may go on writing, as User:isthmus.")
    ] = Field(default_factory=list)
    super_user: Annotated[bool, Field(description="With enforce: the link is a super user, beyond all rules.")] = False

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return self.reserved is None and self.async_only is None and self.enforce is None


def plain(body: BaseModel) -> dict[str, Any]:
    """What was said, for the log."""
    return body.model_dump(mode="json", exclude_unset=True)
