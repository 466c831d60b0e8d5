"""toolcrib: one tool layer for AI agents.

Names are loaded when they are first used, so that ``import toolcrib`` and the command line stay quick.
"""

from typing import TYPE_CHECKING, Any

from toolcrib import version

if TYPE_CHECKING:
    from toolcrib.calls.pipeline import Layer, Step, Subject
    from toolcrib.core import errors
    from toolcrib.core.call import CallProgress, ToolCall, ToolResult
    from toolcrib.core.source import Listing, ToolSource
    from toolcrib.core.tool import (
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
    from toolcrib.crib.assemble import open_crib, open_profile
    from toolcrib.crib.crib import Crib
    from toolcrib.server.asgi import asgi
    from toolcrib.server.serve import serve
    from toolcrib.sources.native.functions import tool
    from toolcrib.sources.native.running import report_progress

__version__ = version.VERSION

_HOMES = {
    "CallProgress": "toolcrib.core.call",
    "Crib": "toolcrib.crib.crib",
    "Deprecation": "toolcrib.core.tool",
    "Example": "toolcrib.core.tool",
    "Layer": "toolcrib.calls.pipeline",
    "Listing": "toolcrib.core.source",
    "Offer": "toolcrib.core.tool",
    "OfferKind": "toolcrib.core.tool",
    "Prompt": "toolcrib.core.tool",
    "RequestKind": "toolcrib.core.tool",
    "Resource": "toolcrib.core.tool",
    "ResourceTemplate": "toolcrib.core.tool",
    "SecurityLevel": "toolcrib.core.tool",
    "Step": "toolcrib.calls.pipeline",
    "Subject": "toolcrib.calls.pipeline",
    "Tool": "toolcrib.core.tool",
    "ToolCall": "toolcrib.core.call",
    "ToolResult": "toolcrib.core.call",
    "ToolSource": "toolcrib.core.source",
    "asgi": "toolcrib.server.asgi",
    "open_crib": "toolcrib.crib.assemble",
    "open_profile": "toolcrib.crib.assemble",
    "report_progress": "toolcrib.sources.native.running",
    "serve": "toolcrib.server.serve",
    "tool": "toolcrib.sources.native.functions",
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
    "RequestKind",
    "Resource",
    "ResourceTemplate",
    "SecurityLevel",
    "Step",
    "Subject",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSource",
    "__version__",
    "asgi",
    "errors",
    "open_crib",
    "open_profile",
    "report_progress",
    "serve",
    "tool",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "errors":
        return importlib.import_module("toolcrib.core.errors")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'toolcrib' has no attribute {name!r}")
