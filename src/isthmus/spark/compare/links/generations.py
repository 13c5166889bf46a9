"""Which parts of a mapped partition were changed by which transform, and which of these can be made again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Self

from isthmus.ledger.documents.transforms import TransformDocument
from isthmus.model.link import Link
from isthmus.model.links.transform import OnError, Transform
from isthmus.model.naming import SourceTopic
from isthmus.spark.compare.links.extent import ComparedSlice, TransformSpan

AS_THEY_ARE: Final = ""
"""In place of the id of a transform: records were not changed."""
_NO_END: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class LinkTransforms:
    """The transforms of a link that are `known`, by their ids, and the id of each topic that has one now."""

    known: Mapping[str, Transform] = field(default_factory=dict)
    current: Mapping[SourceTopic, str] = field(default_factory=dict)

    @classmethod
    def of(cls, link: Link, topics: Iterable[SourceTopic]) -> Self:
        """Return those of a link, for these topics of its. One whose `on_error` alone was changed is known still."""
        variants = [replace(each, on_error=policy) for each in link.transforms if each.is_change for policy in OnError]
        current = {topic: found.digest for topic in topics if (found := link.transform_of(topic)) is not None}
        return cls({each.digest: each for each in variants}, current)

    def find_topics(self, digest: str) -> frozenset[SourceTopic]:
        """Return all topics of the link that have this transform now, whatever their `on_error` is."""
        alike = {replace(self.known[digest], on_error=policy).digest for policy in OnError}
        return frozenset(topic for topic, current in self.current.items() if current in alike)

    def why_unknown(self, part: ComparedSlice) -> str:
        """Return why nobody can say how the records of a slice have to be, "" if they can be made again."""
        if part.transform == AS_THEY_ARE or part.transform in self.known:
            return ""
        if any(each.is_generation(part.transform) for each in self.known.values()):
            return f"made by a function ({part.transform}) whose source may be another one than now"
        return f"made by an earlier transform ({part.transform}), which the link does not have any more"


NO_TRANSFORMS: Final = LinkTransforms()


def transform_spans(written: Sequence[TransformDocument], copied_to: int, current: str) -> tuple[TransformSpan, ...]:
    """Return which transform made a lane's records, by the documents in force, and which will make those from its place
    on, in the order of the source's offsets.
    """
    spans = [TransformSpan(0, AS_THEY_ARE), *(TransformSpan(each.source_offset, each.transform) for each in written)]
    if spans[-1].transform != current:
        spans.append(TransformSpan(max(copied_to, spans[-1].offset_begin), current))
    return tuple(spans)


def cut_by_transform(part: ComparedSlice) -> Iterator[ComparedSlice]:
    """Yield a slice in parts that one transform made each; what only the target has is not cut."""
    spans = part.extent.transforms
    if not spans or part.source.is_empty:
        yield part
        return
    for span, after in pairwise([*spans, TransformSpan(_NO_END, AS_THEY_ARE)]):
        begin = max(span.offset_begin, part.source.offset_begin)
        end = min(after.offset_begin, part.source.offset_end)
        if begin < end:
            yield part.within(begin, end)._replace(transform=span.transform)
