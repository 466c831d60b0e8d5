"""toolcrib: one tool layer for AI agents.

Names are loaded when they are first used, so that ``import toolcrib`` and the command line stay quick.
"""

from typing import TYPE_CHECKING, Any

from toolcrib import version

if TYPE_CHECKING:
    from toolcrib.calls.pipeline import Layer, Step, Subject
    from toolcrib.core import errors
    from toolcrib.core.offers import (
        Deprecation,
        Example,
        Offer,
        OfferKind,
        Prompt,
        RequestKind,
        Resource,
        ResourceTemplate,
        SecurityLevel,
        Tool,
    )
    from toolcrib.core.requests import CallProgress, Request, Result
    from toolcrib.core.source import Listing, Source
    from toolcrib.crib.builder import open_crib, open_profile
    from toolcrib.crib.crib import Crib
    from toolcrib.crib.window import with_resources
    from toolcrib.server.asgi import asgi
    from toolcrib.server.serve import serve
    from toolcrib.sources.native.functions import tool
    from toolcrib.sources.native.running import report_progress

__version__ = version.VERSION

_HOMES = {
    "CallProgress": "toolcrib.core.requests",
    "Crib": "toolcrib.crib.crib",
    "Deprecation": "toolcrib.core.offers",
    "Example": "toolcrib.core.offers",
    "Layer": "toolcrib.calls.pipeline",
    "Listing": "toolcrib.core.source",
    "Offer": "toolcrib.core.offers",
    "OfferKind": "toolcrib.core.offers",
    "Prompt": "toolcrib.core.offers",
    "RequestKind": "toolcrib.core.offers",
    "Resource": "toolcrib.core.offers",
    "ResourceTemplate": "toolcrib.core.offers",
    "SecurityLevel": "toolcrib.core.offers",
    "Step": "toolcrib.calls.pipeline",
    "Subject": "toolcrib.calls.pipeline",
    "Tool": "toolcrib.core.offers",
    "Request": "toolcrib.core.requests",
    "Result": "toolcrib.core.requests",
    "Source": "toolcrib.core.source",
    "asgi": "toolcrib.server.asgi",
    "open_crib": "toolcrib.crib.builder",
    "open_profile": "toolcrib.crib.builder",
    "report_progress": "toolcrib.sources.native.running",
    "serve": "toolcrib.server.serve",
    "tool": "toolcrib.sources.native.functions",
    "with_resources": "toolcrib.crib.window",
}

__all__ = [
    "CallProgress",
    "Crib",
    "Deprecation",
    "Example",
    "Layer",
    "Listing",
    "Offer",
    "OfferKind",
    "Prompt",
    "Request",
    "RequestKind",
    "Resource",
    "ResourceTemplate",
    "Result",
    "SecurityLevel",
    "Source",
    "Step",
    "Subject",
    "Tool",
    "__version__",
    "asgi",
    "errors",
    "open_crib",
    "open_profile",
    "report_progress",
    "serve",
    "tool",
    "with_resources",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "errors":
        return importlib.import_module("toolcrib.core.errors")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'toolcrib' has no attribute {name!r}")
