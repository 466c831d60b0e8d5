"""Native tools out of a user's own modules, which are imported here."""

import importlib
from collections.abc import Callable
from typing import Any

from toolcrib.core.errors import ConfigError
from toolcrib.sources.native import MARK


def import_tools(path: str) -> list[Callable[..., Any]]:
    """The function ``module:function`` names, or every ``@tool`` function of ``module``."""
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module raises while it is loaded
        raise ConfigError(
            f"native: cannot import {module_name!r}: {type(error).__name__}: {error}.",
            hint="Check `native` and PYTHONPATH.",
        ) from None
    if attribute:
        if not callable(getattr(module, attribute, None)):
            raise ConfigError(f"native: {module_name!r} has no function {attribute!r}.")
        return [getattr(module, attribute)]
    return [entry for entry in vars(module).values() if callable(entry) and hasattr(entry, MARK)]
