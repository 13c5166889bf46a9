"""A transform that is a Python function over Arrow batches: `module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure, Portion, Transformer, TransformFailed
from isthmus.model.transforms import Transform
from isthmus.spark.transforms.calls import Calls

if TYPE_CHECKING:
    import pyarrow as pa


class PythonTransformer:
    """Calls a function with the records of a portion as rows (`columns.SCHEMA`). It returns those that are copied, with
    other keys, values, headers and timestamps if it likes.

    If the function fails, or returns something else, the portion is halved until the records are found that it fails
    for: others are changed.
    """

    def __init__(self, function: str, calls: Calls) -> None:
        self._name = function
        self._calls = calls
        self._function: Callable[[pa.RecordBatch], Any] | None = None

    async def change(self, portion: Portion) -> Sequence[Changed]:
        """Return what becomes of each record.

        :raises TransformFailed: The function cannot be imported.
        """
        return await self._calls.run(lambda: self._change(portion))

    def _change(self, portion: Portion) -> list[Changed]:
        if self._function is None:
            self._function = load_function(self._name)
        try:
            return _apply(self._function, portion)
        except Exception as error:  # noqa: BLE001 - a function may raise anything
            if len(portion.records) == 1:
                return [Failure(portion.records[0], f"{type(error).__name__}: {error}")]
        half = len(portion.records) // 2
        return self._change(_slice(portion, 0, half)) + self._change(_slice(portion, half, len(portion.records)))


def build_transformers(transforms: Iterable[Transform], calls: Calls) -> Mapping[str, Transformer]:
    """Build what changes records, by the ids of the transforms."""
    return {each.id: PythonTransformer(each.function, calls) for each in transforms}


def load_function(name: str) -> Callable[[pa.RecordBatch], Any]:
    """Import the function that is named as `module:function`.

    :raises TransformFailed: It cannot be imported here.
    """
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise TransformFailed(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TransformFailed(f"{name} is no function")
    function: Callable[[pa.RecordBatch], Any] = found
    return function


def _apply(function: Callable[[pa.RecordBatch], Any], portion: Portion) -> list[Changed]:
    # Loading pyarrow takes a moment, which lanes without a transform do not need.
    from isthmus.spark.transforms.columns import from_columns, to_columns

    given = to_columns(portion)
    returned: dict[int, Record] = {record.offset: record for record in from_columns(function(given), given)}
    return [returned.get(record.offset) for record in portion.records]


def _slice(portion: Portion, begin: int, end: int) -> Portion:
    return Portion(portion.lane, portion.records[begin:end], portion.are_appended[begin:end])
