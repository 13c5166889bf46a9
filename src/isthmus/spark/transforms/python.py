"""Transforms that are Python functions over Arrow batches."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure, Portion, Transformer, TransformFailed
from isthmus.model.links.transform import RecordFunction, Transform
from isthmus.model.recordfunction import FunctionFolder
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.sources import load_module

if TYPE_CHECKING:
    import pyarrow as pa


_AWAY: Final = (
    "By this error the function says that what it asks is away: bring that back, and the records go on. None is left "
    "out meanwhile, whatever on_error is."
)


class PythonTransformer:
    """Calls a function with the records of a portion as rows (`columns.SCHEMA`). It returns those that are copied, with
    other keys, values, headers and timestamps if it likes.

    If the function fails, or returns something else, the portion is halved until the records are found that it fails
    for: others are changed.
    """

    def __init__(self, function: RecordFunction, calls: Calls) -> None:
        self._name = function
        self._calls = calls
        self._function: Callable[[pa.RecordBatch], Any] | None = None

    async def change(self, portion: Portion) -> Sequence[Changed]:
        """Return what becomes of each record.

        :raises TransformFailed: The function cannot be imported, or says that it cannot work now (ConnectionError,
            TimeoutError).
        """
        return await self._calls.run(lambda: self.change_now(portion))

    def change_now(self, portion: Portion) -> list[Changed]:
        """As `change`, in this thread."""
        if self._function is None:
            self._function = load_function(self._name)
        try:
            return _apply(self._function, portion)
        except (ConnectionError, TimeoutError) as error:
            # What it asks is away: `skip` would leave out everything meanwhile.
            raise TransformFailed(f"{self._name} cannot work now: {type(error).__name__}: {error}", _AWAY) from error
        except Exception as error:  # noqa: BLE001 - a function may raise anything
            if len(portion.records) == 1:
                return [Failure(portion.records[0], f"{type(error).__name__}: {error}")]
        half = len(portion.records) // 2
        return self.change_now(_slice(portion, 0, half)) + self.change_now(_slice(portion, half, len(portion.records)))


def build_functions(transforms: Iterable[Transform], calls: Calls) -> dict[str, Transformer]:
    """Build what changes records by Python functions, by the digests of the transforms."""
    return {each.digest: PythonTransformer(each.python, calls) for each in transforms if each.python is not None}


def load_function(function: RecordFunction) -> Callable[[pa.RecordBatch], Any]:
    """Load a function: as its source has it, if it has that. Else its module is imported. What is imported is searched
    in its folder as well, if that is there.

    :raises TransformFailed: It cannot be imported here.
    """
    try:
        found: Any = _load_module(function)
        for part in function.name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise TransformFailed(f"{function} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TransformFailed(f"{function} is no function")
    loaded: Callable[[pa.RecordBatch], Any] = found
    return loaded


def _load_module(function: RecordFunction) -> ModuleType:
    # What has no source, or is imported by a name that is known only then, may be in the folder as well.
    if function.folder and function.folder not in sys.path:
        sys.path.append(FunctionFolder(function.folder))
    if function.source is not None:
        return load_module(function.module, function.source)
    return importlib.import_module(function.module)


def _apply(function: Callable[[pa.RecordBatch], Any], portion: Portion) -> list[Changed]:
    # Loading pyarrow takes a moment, which lanes without a transform do not need.
    from isthmus.spark.transforms.columns import from_columns, to_columns

    given = to_columns(portion)
    returned: dict[int, Record] = {record.offset: record for record in from_columns(function(given), given)}
    return [returned.get(record.offset) for record in portion.records]


def _slice(portion: Portion, begin: int, end: int) -> Portion:
    return Portion(portion.lane, portion.records[begin:end], portion.are_appended[begin:end])
