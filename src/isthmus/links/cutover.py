"""Several links promoted as one: nothing is changed on any of them until all could be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from isthmus.errors import GateNotMet, IsthmusError
from isthmus.links.promotion import Promoter
from isthmus.model.links.promotion import Promotion


async def promote_together(
    promoters: Sequence[Promoter], *, dry_run: bool = False
) -> dict[str, Promotion | IsthmusError]:
    """Promote links together; return the result of each, by name. All gates are checked first, at the same time; where
    one is not met the other links are left as they are. Then all are promoted, each independently; a repeated call
    continues.
    """
    found = await _all(promoters, dry_run=True)
    if dry_run:
        return found
    failed = [name for name, each in found.items() if isinstance(each, IsthmusError)]
    if not failed:
        return await _all(promoters, dry_run=False)
    why = f"was left as it is: {', '.join(failed)} cannot be promoted now"
    hint = "See to it and give the command again, or promote this link alone."
    return {
        name: each if name in failed else GateNotMet(f"link {name} {why}", hint=hint) for name, each in found.items()
    }


async def _all(promoters: Sequence[Promoter], *, dry_run: bool) -> dict[str, Promotion | IsthmusError]:
    results = await asyncio.gather(*(_one(each, dry_run=dry_run) for each in promoters))
    return {each.name: result for each, result in zip(promoters, results, strict=True)}


async def _one(promoter: Promoter, *, dry_run: bool) -> Promotion | IsthmusError:
    try:
        return await promoter.promote(dry_run=dry_run)
    except IsthmusError as error:
        return error
