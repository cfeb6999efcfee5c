# SPDX-License-Identifier: Apache-2.0
"""Files a command will write: what could not be written, or not in that form, is refused before the work is done."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import ConfigurationError

PICTURES = (".png",)
TRACES = (".txt", ".csv", ".npy", ".parquet")
_COMPRESSED_SUFFIXES = (".gz", ".xz")


def check_folder(path: Path | None, field: str) -> None:
    """Refuse a file in a folder that is not there."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{field}: {path.parent} is no folder; make it first", field=field)


def check_picture(path: Path | None, field: str = "--plot") -> None:
    """Refuse a picture in a folder that is not there, or whose name promises another form than is drawn."""
    check_folder(path, field)
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ConfigurationError(
            f"{field}: {path} is no name of a picture; pictures are drawn as {', '.join(PICTURES)}: name it so",
            field=field,
        )


def check_trace(path: Path, field: str = "OUTPUT") -> None:
    """Refuse a trace to be written whose name says no format, or one that cannot be packed."""
    check_folder(path, field)
    packed = path.suffix in _COMPRESSED_SUFFIXES
    if (Path(path.stem).suffix if packed else path.suffix) not in TRACES:
        raise ConfigurationError(
            f"{field}: {path} says no format a trace is written in; end its name with one of {', '.join(TRACES)}, "
            f"text also packed ({', '.join(_COMPRESSED_SUFFIXES)})",
            field=field,
        )
