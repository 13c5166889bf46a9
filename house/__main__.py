"""Count the source and print the table: `python -m house [--places N]`."""

from __future__ import annotations

import argparse
import sys

from house.report import take_figures


def main() -> int:
    """Print the figures beside their bounds; 1 where one does not keep its bound."""
    parser = argparse.ArgumentParser(prog="python -m house", description="How the source is built, in figures.")
    parser.add_argument("--places", type=int, default=3, help="how many places to name below a bound that is not kept")
    given = parser.parse_args()
    figures = take_figures()
    for figure in figures:
        bound = "" if figure.bound is None else f"at most {figure.bound}"
        mark = "" if figure.is_kept else "  <-"
        sys.stdout.write(f"{figure.what:48}{figure.count:>9,}  {bound}{mark}\n")
        if not figure.is_kept:
            sys.stdout.writelines(f"    {place}\n" for place in figure.places[: given.places])
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
