"""Reading the configuration file and turning it into values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from isthmus.config.overrides import overridden
from isthmus.config.reading.document import ConfigDocument
from isthmus.config.reading.places import DEFAULT_NAME, find
from isthmus.config.reading.problems import refusal, refuse, shape_problems
from isthmus.config.reading.references import Resolution
from isthmus.config.rules import one_writer, shape_rules, warnings
from isthmus.config.schemarules import schema_settings
from isthmus.config.sections.schema import FabricSection
from isthmus.config.transforms import reference_problems
from isthmus.config.treerules import taken_names, tree_conflicts, tree_links, trees_of
from isthmus.config.values import clusters_of, ledger_of, links_of, log_of, metrics_of, spark_of
from isthmus.errors import ConfigError
from isthmus.model.configuration import Configuration


def load(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Configuration:
    """Find and read the configuration file. `environment` answers `${env:...}` references, and
    replaces keys (see `overrides`).

    :raises ConfigError: With every problem found, each by its dotted path and line.
    """
    path = find(given, environment)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text", hint="Save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint="Let the user who runs Isthmus read it.",
        ) from None
    return parse(text, name=str(path), folder=path.absolute().parent, environment=environment)


def parse(
    text: str,
    *,
    name: str = DEFAULT_NAME,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Configuration:
    """Parse the configuration in `text`; relative paths start at `folder` (else where we are).

    :raises ConfigError: With every problem found, each by its dotted path and line.
    """
    folder = folder or Path.cwd()
    document = overridden(ConfigDocument.parse(text, name), environment)
    resolution = Resolution.of(document.root, environment, folder)
    fabric = _validate(resolution, document)
    refuse([*shape_rules(fabric, folder), *reference_problems(resolution.referenced)], document)

    clusters = clusters_of(fabric, folder, resolution.origins)
    links = links_of(fabric, clusters, folder)
    trees = trees_of(fabric.trees)
    refuse([*one_writer(links), *tree_conflicts(trees, links), *taken_names(trees, links)], document)
    return Configuration(
        clusters=clusters,
        links=(*links, *tree_links(trees, clusters)),
        trees=trees,
        schemas=schema_settings(fabric.schemas),
        spark=spark_of(fabric),
        ledger=ledger_of(fabric),
        metrics=metrics_of(fabric),
        log=log_of(fabric, folder),
        warnings=tuple(warnings(fabric, document, resolution.referenced | document.given.keys())),
    )


def _validate(resolution: Resolution, document: ConfigDocument) -> FabricSection:
    """Validate the document's values by their sections; report unresolved references as well."""
    try:
        fabric = FabricSection.model_validate(resolution.root)
    except ValidationError as error:
        # A mistake at an unresolved reference is a consequence, not a mistake of its own.
        found = (p for p in shape_problems(error) if not resolution.is_unresolved(p.path))
        raise refusal([*resolution.problems, *found], document) from None
    refuse(resolution.problems, document)
    return fabric
