# SPDX-License-Identifier: Apache-2.0
"""Modules beside a settings file: `app: my_app:count` finds my_app.py in the folder of the file."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "PENSTOCK_MODULES"
"""Names the folder to the processes of operators."""

_PYTHONPATH = "PYTHONPATH"


@contextmanager
def modules_beside(settings_file: Path) -> Iterator[None]:
    """Put the folder of a settings file first on the module path, here and in the processes that are started.

    Afterwards all is as before, and modules of that folder are forgotten: the next file may have others of that name.
    """
    folder = str(settings_file.absolute().parent)
    path, loaded = list(sys.path), set(sys.modules)
    before = {name: os.environ.get(name) for name in (VARIABLE, _PYTHONPATH)}
    sys.path.insert(0, folder)
    os.environ[VARIABLE] = folder
    # Python workers of Spark's executors know only this one.
    os.environ[_PYTHONPATH] = os.pathsep.join(part for part in (folder, before[_PYTHONPATH]) if part)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for name in set(sys.modules) - loaded:
            if _is_in(sys.modules[name], folder):
                del sys.modules[name]


def use_folder() -> None:
    """In an operator's process: look into the folder that `modules_beside` named before any other."""
    folder = os.environ.get(VARIABLE)
    if folder:
        sys.path.insert(0, folder)


def _is_in(module: object, folder: str) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).is_relative_to(folder)
