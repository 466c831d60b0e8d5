"""Processes are started, and tunnels dug, on both event loops; everything else runs on the one users get."""

import asyncio

import uvloop

BOTH = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
USUAL = {"uvloop": uvloop.new_event_loop}


def pytest_asyncio_loop_factories(config, item):
    return BOTH if item.path.stem in ("test_stdio", "test_proxy") else USUAL
