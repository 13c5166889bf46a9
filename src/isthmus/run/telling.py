"""The receivers of a run's progress: the caller's function, and the HTTP server for metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from isthmus.model.configuration import MetricsSettings
from isthmus.model.links.progress import LinkProgress

Tell = Callable[[tuple[LinkProgress, ...]], None]


@contextlib.contextmanager
def telling(settings: MetricsSettings, on_progress: Tell | None) -> Iterator[Tell | None]:
    """Yield the function to call with every new progress while the block runs, `None` where there is no receiver.

    :raises ConfigError: The address to listen at is invalid, or other hosts could reach it and that was not asked for.
    :raises PortBusy: The port is taken.
    """
    if settings.listen is None:
        yield on_progress
        return
    # Imported only when it is needed.
    from isthmus.metrics.server import serving

    with serving(settings) as show:

        def tell(links: tuple[LinkProgress, ...]) -> None:
            for each in (show, on_progress):
                if each is not None:
                    each(links)

        yield tell
