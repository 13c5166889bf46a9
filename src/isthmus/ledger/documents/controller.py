"""The document of the controller of a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.process.whereabouts import UNKNOWN, Whereabouts
from isthmus.model.text.instant import written_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDocument(DocumentOfLink):
    """The controller of a link, written every few seconds with another `beat`.

    `generation` grows with every controller, even when the ledger was lost in between. `started_ms` is for display,
    `version` is its Isthmus release. `held_s` is how long (s) brokers may delay its writes because of a client quota:
    its next beat may come so much later. It has ended the parts that are detached as of `attached_said`
    (`Declaration`), and does not begin them again. The other fields are as in `Whereabouts`. Older releases did not
    write all of these.
    """

    KIND: ClassVar[str] = "controller"

    generation: int
    beat: int
    started_ms: int
    host: str = ""
    host_id: str = ""
    pid: int = 0
    process_start: int = UNKNOWN
    version: str = ""
    held_s: float = 0.0
    attached_said: str = ""

    @property
    def whereabouts(self) -> Whereabouts:
        """The process of the controller."""
        return Whereabouts(host=self.host, host_id=self.host_id, pid=self.pid, process_start=self.process_start)

    @property
    def described(self) -> str:
        """A phrase for messages: where it runs, and since when."""
        where = f"on {self.host}, pid {self.pid}" if self.host else "of an older Isthmus"
        return f"the controller {where}, started {written_instant(self.started_ms)}"
