"""Values as JSON has them. A dataclass or a named tuple is its own schema: its fields in their order, and those of its
properties that are a `computed_field`.

The type of a field says what is not as by default: `Annotated[float, "age_seconds", tenths]` stands under this key, and
converted by this function, which then gives the type. A schema has the name of the class, or that of its `SCHEMA`, and
the first paragraph of its docstring.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from isthmus.model.text.instant import written_instant

ValueT = TypeVar("ValueT")
OwnerT = TypeVar("OwnerT")
ResultT = TypeVar("ResultT", covariant=True)


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


class FormMark(enum.Enum):
    """What else the type of a field may say of its JSON form."""

    HIDDEN = "no part of it"
    FLAT = "the keys of this value stand in its place, as those of a base class; they are left out if it is `None`"
    EMBEDDED = "the same, but if it is `None` they are null, or an empty list"
    OPTIONAL = "left out if it is `None`"


Hidden = Annotated[ValueT, FormMark.HIDDEN]
Flat = Annotated[ValueT, FormMark.FLAT]
IfKnown = Annotated[ValueT | None, FormMark.OPTIONAL]


class PlainValue:
    """A value that programs get in answer."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return its JSON form."""
        return _write_form(self)


class Key(NamedTuple):
    """A key of a JSON form: the attribute that has its value, and the type `hint` of that once it is converted. What is
    as JSON has it already needs no conversion.
    """

    key: str
    attribute: str
    hint: Any
    convert: Callable[[Any], Any] | None
    mark: FormMark | None


class Computed(property, Generic[OwnerT, ResultT]):
    """A property that stands in the JSON form of its value: before the key of another attribute, or behind all."""

    before: str = ""

    if TYPE_CHECKING:

        @overload
        def __get__(self, owner: None, kind: type, /) -> Self: ...
        @overload
        def __get__(self, owner: OwnerT, kind: type | None = None, /) -> ResultT: ...
        def __get__(self, owner: Any, kind: type | None = None, /) -> Any: ...


@overload
def computed_field(compute: Callable[[OwnerT], ResultT], /) -> Computed[OwnerT, ResultT]: ...
@overload
def computed_field(*, before: str) -> Callable[[Callable[[OwnerT], ResultT]], Computed[OwnerT, ResultT]]: ...
def computed_field(compute: Callable[[Any], Any] | None = None, *, before: str = "") -> Any:
    """Declare a property that stands in the JSON form of its value, behind the fields or `before` another attribute.
    Several before the same one keep their order.
    """

    def declare(function: Callable[[Any], Any]) -> Computed[Any, Any]:
        computed: Computed[Any, Any] = Computed(function)
        computed.before = before
        return computed

    return declare if compute is None else declare(compute)


def plain(value: object) -> Any:
    """Return a value as JSON has it: lists for tuples and sets, strings for enums, objects for other values."""
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [plain(each) for each in cast(Sequence[object], value)]
    if isinstance(value, (str, int, float)):
        return str(value) if isinstance(value, enum.Enum) else value
    if has_form(kind):
        return _write_form(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Collection):
        return [plain(each) for each in value]
    return str(value)


def _write_form(value: object) -> dict[str, Any]:
    form: dict[str, Any] = {}
    read, keys = _reading(cast(Any, type(value)))
    for found, (key, convert, mark, nulls) in zip(read(value), keys, strict=False):
        written = found if found is None or convert is None else convert(found)
        if mark is None:
            form[key] = written
        elif mark is not FormMark.OPTIONAL:
            form.update(nulls if written is None else written)
        elif written is not None:
            form[key] = written
    return form


@functools.cache
def _reading(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[tuple[Any, ...], ...]]:
    """Return a function that reads all attributes of a JSON form, the last one twice: it would return no tuple for one
    alone. With it their keys, conversions and marks, and the keys that stand there instead of `None`.
    """
    keys = keys_of(kind)
    if not keys:
        return (lambda _: ()), ()
    names = [each.attribute for each in keys]
    return operator.attrgetter(*names, names[-1]), tuple(
        (each.key, each.convert, each.mark, _nulls(each)) for each in keys
    )


def _nulls(key: Key) -> dict[str, Any]:
    keys = keys_of(without_none(key.hint)) if key.mark is FormMark.EMBEDDED else ()
    return {each.key: [] if is_list(each.hint) else None for each in keys}


@functools.cache
def has_form(kind: type) -> bool:
    """Return whether values of this type are objects in JSON."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


@functools.cache
def keys_of(kind: Any) -> tuple[Key, ...]:
    """Return the keys of the JSON form of a dataclass or a named tuple, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    names = kind._fields if hasattr(kind, "_fields") else [field.name for field in dataclasses.fields(kind)]
    keys = [_key(name, hints[name]) for name in names]
    for base in reversed(kind.__mro__):
        for name, computed in vars(base).items():
            if isinstance(computed, Computed):
                key = _key(name, get_type_hints(computed.fget, include_extras=True)["return"])
                places = [each.attribute for each in keys]
                keys.insert(places.index(computed.before) if computed.before else len(keys), key)
    return tuple(each for each in keys if each.mark is not FormMark.HIDDEN)


def without_none(hint: Any) -> Any:
    """Return a type without `None`."""
    kinds = [each for each in get_args(hint) if each is not type(None)]
    return functools.reduce(operator.or_, kinds) if type(None) in get_args(hint) else hint


def is_list(hint: Any) -> bool:
    """Return whether values of this type are lists in JSON."""
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Collection) and not issubclass(origin, Mapping)


def _key(name: str, hint: Any) -> Key:
    key, mark = name, None
    conversion: Callable[[Any], Any] | None = None
    if get_origin(hint) is Annotated:
        hint, *details = get_args(hint)
        for detail in details:
            if isinstance(detail, str):
                key = detail
            elif isinstance(detail, FormMark):
                mark = detail
            else:
                conversion = detail
    if conversion is None:
        return Key(key, name, hint, _conversion(without_none(hint)), mark)
    is_type = isinstance(conversion, type)
    returned: Any = conversion if is_type else get_type_hints(conversion, include_extras=True)["return"]
    convert = conversion if _is_scalar(returned) else lambda value: plain(conversion(value))
    return Key(key, name, returned | None if without_none(hint) != hint else returned, convert, mark)


def _conversion(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of a type come into JSON, `None` for as they are."""
    if _is_scalar(kind):
        return None
    return str if isinstance(kind, type) and issubclass(kind, enum.Enum) else plain


def _is_scalar(hint: Any) -> bool:
    kind = without_none(hint)
    return getattr(kind, "__supertype__", kind) in _SCALARS


def null_if_negative(number: int) -> int | None:
    """Return a number that is negative while unknown."""
    return None if number < 0 else number


def null_if_zero(number: int) -> int | None:
    """Return a number that is zero while unknown."""
    return number or None


def null_if_empty(text: str) -> str | None:
    """Return a text that is empty while unknown."""
    return text or None


def instant_or_null(instant_ms: int) -> str | None:
    """Return a moment in words, `None` for a negative one."""
    return None if instant_ms < 0 else written_instant(instant_ms)


def tenths(number: float) -> float:
    """Round to one digit."""
    return round(number, 1)


def thousandths(number: float) -> float:
    """Round to three digits."""
    return round(number, 3)


def texts(values: Iterable[object]) -> list[str]:
    """Return all values in words."""
    return [str(each) for each in values]


NumberOrNull = Annotated[int, null_if_negative]
TextOrNull = Annotated[str, null_if_empty]
