"""Whoever has no event loop can do whatever others can."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from isthmus.fabric import fabric
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.fabric.blocking import Shell, blocking, wrap_in_shell
from isthmus.fabric.operations import AsyncLinkOperations
from isthmus.kafka.session import ClientSession
from isthmus.links.declaring import AsyncDeclaredLinks
from isthmus.namespaces.namespaces import AsyncNamespaces
from isthmus.trees.targets import Trees

SHELLS = [found for _, found in inspect.getmembers(fabric, inspect.isclass) if issubclass(found, Shell)]
ELSEWHERE = {
    AsyncFabric: {"open", "aclose", "comparison"},
    AsyncDeclaredLinks: {"change"},
    AsyncNamespaces: {"release", "renew"},
    Trees: {"comparison"},
}
"""What has another form there (`open_fabric`, `close`, `verify`), and what is a part of other verbs."""


def core_of(shell: type[Any]) -> type[Any]:
    """The class of which it is the shell."""
    (core,) = (base.__args__[0] for base in shell.__orig_bases__)
    assert isinstance(core, type)
    return core


@pytest.mark.parametrize("shell", [found for found in SHELLS if found is not Shell])
def test_a_shell_has_all_verbs_of_its_core(shell: type[Any]) -> None:
    """Each verb to be awaited is there to be called as well, with the same arguments and the same words about it."""
    core = core_of(shell)
    verbs = {
        name: method
        for name, method in inspect.getmembers(core, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in ELSEWHERE.get(core, ())
    }
    assert verbs
    for name, method in verbs.items():
        called = getattr(shell, name)
        assert inspect.signature(called) == inspect.signature(method), name
        assert called.__doc__ == method.__doc__, name


class _Core:
    def __init__(self, session: ClientSession, factor: int = 2) -> None:
        self.session = session
        self.factor = factor

    async def doubled(self, number: int, *, plus: int = 0) -> int:
        """Twice the number."""
        return self.factor * number + plus

    async def own_session(self) -> ClientSession:
        return self.session


class _Shell(Shell[_Core]):
    doubled = blocking(_Core.doubled)
    own_session = blocking(_Core.own_session)


class _Maker:
    def __init__(self, session: ClientSession) -> None:
        self.session = session

    def core(self, *, factor: int) -> _Core:
        """A core that multiplies."""
        return _Core(self.session, factor)


class _MakerShell(Shell[_Maker]):
    core = wrap_in_shell(_Maker.core, _Shell)


async def _from_a_notebook() -> int:
    return _Shell(_Core).doubled(3, plus=1)


def test_a_shell_answers_with_what_its_core_does() -> None:
    """Arguments go in and results come out as they are, with a loop at work and without, over a session per call."""
    shell = _Shell(_Core)
    assert shell.doubled(3, plus=1) == 7 == asyncio.run(_from_a_notebook())
    assert shell.own_session() is not shell.own_session()


def test_what_a_core_makes_has_a_shell_too() -> None:
    """It is made of the arguments that were given, anew over a session for each call."""
    made = _MakerShell(_Maker).core(factor=3)
    assert made.doubled(3) == 9
    assert made.own_session() is not made.own_session()
    assert inspect.signature(fabric.LinkOperations.promoter) == inspect.signature(AsyncLinkOperations.promoter)
    assert fabric.LinkOperations.recoverer.__doc__ == AsyncLinkOperations.recoverer.__doc__
