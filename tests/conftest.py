"""Real clusters for the tests: started when the first test asks, ended with the session."""

from __future__ import annotations

import random
import secrets
import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from isthmus.local import LocalCluster
from testing.patience import UNFENCED
from tests import nightly, sharing

HEAP_MB = 256

# How long an example takes says how busy the machine is.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts the tests in the background has them ignore Ctrl-C, which what they start inherits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Plugins, as what a session shares belongs to no folder, of which alone a conftest.py is told.
    config.pluginmanager.register(sharing)
    config.pluginmanager.register(nightly)


class ByFile(LoadScopeScheduling):
    """Which process runs which tests: whoever is free takes the next file.

    Files that need the same clusters follow one another (tests/sharing.py); unit tests, which need none, fill what time
    is left.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    """With `-n`: files in their order, not the one with the most tests first."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(scope="session")
def east() -> Iterator[LocalCluster]:
    """A cluster of one broker, shared by all tests: give every topic and group a name of its own."""
    with LocalCluster.start("east", brokers=1, heap_mb=HEAP_MB, properties=UNFENCED) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def west() -> Iterator[LocalCluster]:
    """Another cluster like `east`."""
    with LocalCluster.start("west", brokers=1, heap_mb=HEAP_MB, properties=UNFENCED) as cluster:
        yield cluster


# Leaders move when a test has them moved, not when a controller finds them elsewhere.
STEADY = {"auto.leader.rebalance.enable": "false"}


@pytest.fixture(scope="session")
def east3() -> Iterator[LocalCluster]:
    """A cluster of three brokers: a test that stops one starts it again."""
    with LocalCluster.start("east3", brokers=3, heap_mb=HEAP_MB, properties=STEADY) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def west3() -> Iterator[LocalCluster]:
    """Another cluster like `east3`."""
    with LocalCluster.start("west3", brokers=3, heap_mb=HEAP_MB, properties=STEADY) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured() -> Iterator[LocalCluster]:
    """A cluster with an authorizer."""
    with LocalCluster.start("secured", brokers=1, heap_mb=HEAP_MB, secure=True, properties=UNFENCED) as cluster:
        yield cluster


@pytest.fixture
def topic() -> Callable[[str], str]:
    """Names for topics (and groups) that no other test uses: `topic("orders")`."""

    def name(stem: str = "topic") -> str:
        return f"{stem}-{secrets.token_hex(4)}"

    return name


@pytest.fixture
def chance() -> random.Random:
    """Randomness whose seed is printed when the test fails."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure only
    return random.Random(seed)
