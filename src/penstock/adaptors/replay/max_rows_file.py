# SPDX-License-Identifier: Apache-2.0
"""A file with the most records of a batch: a running query is given another limit by writing it.

An option of a source is fixed when its query starts. Whoever looks for the size of a batch would have to start the
query again for every trial.
"""

from __future__ import annotations

from pathlib import Path

from penstock.adaptors.replay.options import ReplayOptions
from penstock.errors import ConfigurationError
from penstock.units import parse_whole_number


def write_max_rows(path: Path, rows: int) -> None:
    """Set the limit of the batches from the next one on; a reader sees the old or the new number, never a part."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(f"{rows}\n", encoding="ascii")
    draft.replace(path)


def read_max_rows(options: ReplayOptions) -> int | None:
    """Return the limit in the file that the options name; None: they name none.

    Raises
    ------
    ConfigurationError
        There is no such file, or no number in it.
    """
    if options.max_rows_file is None:
        return None
    try:
        text = Path(options.max_rows_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigurationError(
            f"maxRowsFile: {options.max_rows_file} cannot be read ({fault}); write the most records of a batch into it",
            field="maxRowsFile",
        ) from fault
    return parse_whole_number("maxRowsFile", text.strip(), least=1)
