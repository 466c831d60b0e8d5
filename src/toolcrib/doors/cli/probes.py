"""What machines ask a server about itself: is it alive, is it ready, how is it doing."""

import time
from collections.abc import Callable

import msgspec

from toolcrib.core.audit import AuditStatus
from toolcrib.crib import Crib
from toolcrib.transports.http_server import Exchange, Handler, Request, error_body
from toolcrib.version import VERSION

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
OPEN_PATHS = frozenset({HEALTH_PATH, READY_PATH})
"""Answered without a token: they say nothing of tools or callers."""

PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
_JSON = b"application/json"

Page = Callable[[], tuple[int, bytes, bytes]]


def probe_routes(crib: Crib) -> dict[str, Handler]:
    """The handlers by path."""
    started_at = time.time()

    def alive() -> tuple[int, bytes, bytes]:
        return 200, msgspec.json.encode({"status": crib.health()["status"], "version": VERSION}), _JSON

    def ready() -> tuple[int, bytes, bytes]:
        reasons = reasons_not_ready(crib.audit.status())
        return 503 if reasons else 200, msgspec.json.encode({"ready": not reasons, "reasons": reasons}), _JSON

    def metrics() -> tuple[int, bytes, bytes]:
        return 200, crib.exposition(VERSION, started_at).encode(), PROMETHEUS

    return {HEALTH_PATH: _get(alive), READY_PATH: _get(ready), METRICS_PATH: _get(metrics)}


def reasons_not_ready(audit: AuditStatus) -> list[str]:
    """Why calls should go elsewhere for now; the configuration is loaded before anything is served."""
    if not audit.enabled:
        return []
    if audit.problem:
        return [f"The audit log cannot be written: {audit.problem}."]
    return [] if audit.opened else ["The audit log is not open yet."]


def _get(page: Page) -> Handler:
    def answer(request: Request, exchange: Exchange) -> None:
        if request.method not in (b"GET", b"HEAD"):
            exchange.answer(405, error_body("HTTP_METHOD_NOT_ALLOWED", "Use GET."), headers=((b"allow", b"GET, HEAD"),))
            return
        exchange.answer(*page())

    return answer
