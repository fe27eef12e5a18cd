"""Command line: writes the generated files, or checks that they are up to date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crdgen.files import generated_files


def main(arguments: list[str] | None = None) -> int:
    """Write or check the generated files. Returns 1 if a checked file is not up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m crdgen", description="Write the generated files, or check that they are up to date."
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path.cwd(),
        help="root directory of the repository (default: the current directory)",
    )
    parser.add_argument("--check", action="store_true", help="do not write files; fail if a file is not up to date")
    options = parser.parse_args(arguments)
    stale = []
    for name, text in generated_files().items():
        path = options.root / name
        if path.is_file() and path.read_text() == text:
            continue
        stale.append(name)
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        sys.stdout.write(f"{name}: not up to date, run `make crds`\n" if options.check else f"wrote {name}\n")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
