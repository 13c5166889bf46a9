"""The format of single values in the configuration file: sizes, addresses, names and patterns."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from isthmus.errors import ConfigError
from isthmus.model.configsettings import PropertyPattern
from isthmus.model.groupsettings import GroupPattern
from isthmus.model.kafka.access import PrincipalPattern
from isthmus.model.selection import TopicPattern
from isthmus.model.text.patterns import NamePattern

_UNITS: Final = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_NEARLY_UNIT: Final = re.compile(r"([kmgt]?)i?(b|bits?)?", re.IGNORECASE)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
_NO_SIZE: Final = "must be a number of bytes such as 1048576, 50 MB or 50 MiB"
_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/,]+):(\d{1,5})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MASTER: Final = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://\S+")
_URL: Final = re.compile(r"https?://\S+")


def _size(value: object) -> object:
    if not isinstance(value, str):
        return value
    written = _SIZE.fullmatch(value.strip())
    if written is None or written[2] not in _UNITS:
        raise ValueError(_unclear(*written.groups()) if written else _NO_SIZE)
    return int(float(written[1]) * _UNITS[written[2]])


def size_bytes(text: str) -> int:
    """Parse a size above 0 as in the file: `50 MB`.

    :raises ConfigError: It is none.
    """
    try:
        found = _size(text)
    except ValueError as error:
        raise ConfigError(f"{text} {error}", hint="Sizes are numbers of bytes, with a unit or without.") from error
    if not isinstance(found, int) or found <= 0:
        raise ConfigError(f"{text} {_NO_SIZE}", hint="It has to be above 0.")
    return found


def _unclear(number: str, unit: str) -> str:
    """Describe the mistake in a unit that is nearly one: lower-case letters are bits to some and bytes to others."""
    nearly = _NEARLY_UNIT.fullmatch(unit)
    if nearly is None:
        return _NO_SIZE
    prefix = nearly[1].upper()
    either = f"{number} {'k' if prefix == 'K' else prefix}B or {number} {prefix}iB" if prefix else f"{number} B"
    if nearly[2] and not nearly[2].startswith("B"):
        return f"has the unit {unit}, which may mean bits: for bytes write {either}"
    return f"has no clear unit: write {either}"


def address_list(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def single_item(value: object) -> object:
    """Accept one section where there may be a list of them."""
    return (value,) if isinstance(value, dict) else value


def checked_address(value: str) -> str:
    written = _ADDRESS.fullmatch(value)
    if written is None or not 0 < int(written[1]) < 65536:
        raise ValueError("must be host:port, for example broker-1.example.com:9092")
    return value


def _zookeeper(value: str) -> str:
    servers, slash, path = value.partition("/")
    for server in servers.split(","):
        checked_address(server.strip())
    if slash and (not path or path.endswith("/") or "//" in path):
        raise ValueError("must end in a path such as /kafka, or in none")
    return f"{','.join(server.strip() for server in servers.split(','))}{slash}{path}"


def _pattern(value: str) -> str:
    try:
        return str(TopicPattern.parse(value))
    except ConfigError as error:
        raise ValueError(f"cannot be used: {error}") from None


def _group_pattern(value: str) -> str:
    try:
        return str(GroupPattern.parse(value))
    except ConfigError as error:
        raise ValueError(f"cannot be used: {error}") from None


def _property_pattern(value: str) -> str:
    try:
        return str(PropertyPattern.parse(value))
    except ConfigError as error:
        raise ValueError(f"cannot be used: {error}") from None


def _principal_pattern(value: str) -> str:
    try:
        return str(PrincipalPattern.parse(value))
    except ConfigError as error:
        raise ValueError(f"cannot be used: {error}") from None


def _certificate_pattern(value: str) -> str:
    try:
        return str(NamePattern.split(value))
    except ConfigError as error:
        raise ValueError(f"cannot be used: {error}") from None


def _name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError("must consist of at most 100 letters, digits, '.', '_' and '-'")
    return value


def checked_url(value: str) -> str:
    if _URL.fullmatch(value) is None:
        raise ValueError("must be an http or https address")
    return value


def switch_text(value: object) -> object:
    """Accept a switch with more than two positions: YAML reads a plain `off` as false."""
    return "off" if value is False else value


def conf_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _moment(value: object) -> object:
    # YAML reads some points in time as numbers and dates.
    return str(value) if isinstance(value, int | date) and not isinstance(value, bool) else value


def _master(value: str) -> str:
    if _MASTER.fullmatch(value) is None:
        raise ValueError("must be local[*], local[4], spark://host:port, yarn or k8s://host:port")
    return value


Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
Address = Annotated[str, AfterValidator(checked_address)]
ZooKeeperServers = Annotated[str, AfterValidator(_zookeeper)]
Pattern = Annotated[str, AfterValidator(_pattern)]
GroupPatternText = Annotated[str, AfterValidator(_group_pattern)]
PropertyPatternText = Annotated[str, AfterValidator(_property_pattern)]
PrincipalPatternText = Annotated[str, AfterValidator(_principal_pattern)]
CertificatePatternText = Annotated[str, Field(min_length=1), AfterValidator(_certificate_pattern)]
Name = Annotated[str, AfterValidator(_name)]
Url = Annotated[str, AfterValidator(checked_url)]
Master = Annotated[str, AfterValidator(_master)]
Text = Annotated[str, Field(min_length=1)]
Moment = Annotated[str, BeforeValidator(_moment), Field(min_length=1)]
