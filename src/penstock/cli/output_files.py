# SPDX-License-Identifier: Apache-2.0
"""Checks output files before the work starts: refuses those that could not be written, or not in that format."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import ConfigurationError

PICTURES = (".png",)
TRACES = (".txt", ".csv", ".npy", ".parquet")
_COMPRESSED_SUFFIXES = (".gz", ".xz")


def check_folder(path: Path | None, field: str) -> None:
    """Refuse a file in a folder that does not exist, and a folder in place of a file."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{field}: {path.parent} is not a folder; create it first", field=field)
    if path is not None and path.is_dir():
        raise ConfigurationError(f"{field}: {path} is a folder; name a file in it", field=field)


def check_picture(path: Path | None, field: str = "--plot") -> None:
    """Refuse a picture in a folder that does not exist, or with a suffix that cannot be drawn."""
    check_folder(path, field)
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ConfigurationError(
            f"{field}: {path} is not a picture's name; end it with {' or '.join(PICTURES)}",
            field=field,
        )


def check_trace(path: Path, field: str = "OUTPUT") -> None:
    """Refuse an output trace whose suffix is not a format, or one that cannot be compressed."""
    check_folder(path, field)
    packed = path.suffix in _COMPRESSED_SUFFIXES
    if (Path(path.stem).suffix if packed else path.suffix) not in TRACES:
        raise ConfigurationError(
            f"{field}: {path} has no suffix of a trace format; end its name with one of {', '.join(TRACES)}, "
            f"text also compressed ({', '.join(_COMPRESSED_SUFFIXES)})",
            field=field,
        )
