"""Whom a run tells how it does: whoever asked for progress, and those who ask over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from isthmus.model.configuration import MetricsSettings
from isthmus.model.progress import LinkProgress

Tell = Callable[[tuple[LinkProgress, ...]], None]


@contextlib.contextmanager
def telling(settings: MetricsSettings, on_progress: Tell | None) -> Iterator[Tell | None]:
    """What to call with every new progress for as long as the block runs, `None` where nobody is to be told.

    :raises ConfigError: The address to listen at is none, or other hosts could reach it and that was not asked for.
    :raises PortBusy: Something listens there already.
    """
    if settings.listen is None:
        yield on_progress
        return
    # Loaded by whoever wants it only.
    from isthmus.metrics.server import serving

    with serving(settings) as show:

        def tell(links: tuple[LinkProgress, ...]) -> None:
            for each in (show, on_progress):
                if each is not None:
                    each(links)

        yield tell
