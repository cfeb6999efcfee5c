# SPDX-License-Identifier: Apache-2.0
"""Short names of Penstock's own applications: `log-analysis` is `penstock.apps.log_analysis:log_analysis`."""

from __future__ import annotations

import importlib
import pkgutil

from penstock.errors import ConfigurationError


def app_path(name: str, field: str = "APP") -> str:
    """``module:function`` of an application that a user names so, or by a short name.

    Examples
    --------
    >>> app_path("log-analysis"), app_path("my_app:count")
    ('penstock.apps.log_analysis:log_analysis', 'my_app:count')
    """
    if ":" in name:
        return name
    known = short_names()
    if name not in known:
        raise ConfigurationError(
            f"{field}: no application is called {name!r}; there are {', '.join(known)}, or write module:function",
            field=field,
        )
    function = name.replace("-", "_")
    return f"penstock.apps.{function}:{function}"


def short_names() -> list[str]:
    """The packages of `penstock.apps` that have a function of their own name."""
    import penstock.apps

    names = [module.name for module in pkgutil.iter_modules(penstock.apps.__path__) if module.ispkg]
    return [
        name.replace("_", "-")
        for name in names
        if callable(getattr(importlib.import_module(f"penstock.apps.{name}"), name, None))
    ]
