"""Coroutines for callers that have none: scripts, and notebooks where a loop runs already."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from isthmus.kafka.session import ClientSession

CoreT = TypeVar("CoreT")
CoreT_co = TypeVar("CoreT_co", covariant=True)
P = ParamSpec("P")
ResultT = TypeVar("ResultT")
OtherT = TypeVar("OtherT")
ShellT = TypeVar("ShellT")
_HEED_S: Final = 1.0
"""A signal that comes just before a wait begins is heard of when it ends, so that none is endless."""


class Shell(Generic[CoreT_co]):
    """What a core offers to programs with an event loop, for those without.

    Each call makes a core over clients of its own, blocks until the answer is there, and leaves the clusters.
    """

    def __init__(self, core: Callable[[ClientSession], CoreT_co]) -> None:
        self._core = core

    def _call(self, ask: Callable[[CoreT_co], Coroutine[Any, Any, ResultT]]) -> ResultT:
        async def answer() -> ResultT:
            async with ClientSession() as session:
                return await ask(self._core(session))

        return in_loop(answer())

    def _each(self, ask: Callable[[CoreT_co], AsyncIterator[ResultT]]) -> Iterator[ResultT]:
        async def answers() -> AsyncIterator[ResultT]:
            async with ClientSession() as session:
                async for answer in ask(self._core(session)):
                    yield answer

        return in_turn(answers())


def blocking(
    method: Callable[Concatenate[CoreT, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Shell[CoreT], P], ResultT]:
    """A method of a core as its shell has it: the same arguments, result and errors."""

    def call(shell: Shell[CoreT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return shell._call(lambda core: method(core, *args, **kwargs))

    update_wrapper(call, method)
    return call


def call_here(
    method: Callable[Concatenate[CoreT, P], Coroutine[Any, Any, Callable[[], ResultT]]],
) -> Callable[Concatenate[Shell[CoreT], P], ResultT]:
    """A method by which a core returns a function that blocks, as its shell has it: the same arguments and errors, and
    the result of that function. It is called in the caller's thread: Ctrl-C ends it.
    """

    def call(shell: Shell[CoreT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return shell._call(lambda core: method(core, *args, **kwargs))()

    update_wrapper(call, method)
    return call


def wrap_in_shell(
    method: Callable[Concatenate[CoreT, P], OtherT], shell: Callable[[Callable[[ClientSession], OtherT]], ShellT]
) -> Callable[Concatenate[Shell[CoreT], P], ShellT]:
    """A method by which a core makes another one, as its shell has it: the same arguments, and the other's shell."""

    def call(own: Shell[CoreT], /, *args: P.args, **kwargs: P.kwargs) -> ShellT:
        return shell(lambda session: method(own._core(session), *args, **kwargs))

    update_wrapper(call, method)
    return call


def in_loop(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine, run in a loop of its own; in another thread where this one has a loop already.

    Ctrl-C while that thread is waited for cancels the work and waits until it has ended.
    """
    return _elsewhere(work) if _is_looping() else asyncio.run(work)


def _is_looping() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def in_turn(items: AsyncIterator[ResultT]) -> Iterator[ResultT]:
    """What is awaited one after the other, in a loop in another thread; a caller who stops asking ends that one too."""

    async def following() -> tuple[ResultT] | None:
        async for item in items:
            return (item,)
        return None

    async def close_items() -> None:
        if (close := getattr(items, "aclose", None)) is not None:
            await close()

    with _loop_elsewhere() as loop:
        try:
            while (found := _wait_for(following(), loop)) is not None:
                yield found[0]
        except GeneratorExit:
            _wait_for(close_items(), loop)
            raise


def _wait_for(work: Coroutine[Any, Any, ResultT], loop: asyncio.AbstractEventLoop) -> ResultT:
    future = asyncio.run_coroutine_threadsafe(work, loop)
    while True:
        try:
            return future.result(_HEED_S)
        except TimeoutError:
            if future.done():
                raise


def _elsewhere(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    with _loop_elsewhere() as loop:
        return _wait_for(work, loop)


@contextmanager
def _loop_elsewhere() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own; what is left in it is cancelled if it is left by an error."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="isthmus", daemon=True)
    thread.start()
    try:
        yield loop
    except BaseException:
        # An interrupt may come before the future is ours to cancel.
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        raise
    finally:
        asyncio.run_coroutine_threadsafe(wait_for_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_others() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def wait_for_others() -> None:
    """What was cancelled has ended, and what was begun in threads as well."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
