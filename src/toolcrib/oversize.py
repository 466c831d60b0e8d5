"""From configuration to where results are kept that are too large for a model, and to the tool that reads them."""

import time
from collections.abc import Sequence
from dataclasses import replace

from toolcrib.calls.results.reader import DESCRIPTION, INPUT_SCHEMA, ResultReader
from toolcrib.config.model import Config, ResultsConfig, has_result_limit
from toolcrib.core.errors import ConfigError
from toolcrib.core.names import RESULT_READ
from toolcrib.shared import Shared
from toolcrib.sources.native import NativeTool, define
from toolcrib.stores.paths import results_path
from toolcrib.stores.results import ResultStore
from toolcrib.stores.results_shared import SharedResults
from toolcrib.surroundings import Surroundings


async def open_results(config: Config, surroundings: Surroundings) -> ResultStore | None:
    """Where large results are kept, if any can be too large; what killed programs left there is removed."""
    if not has_result_limit(config):
        return None
    store = ResultStore(results_path(surroundings.env), config.results)
    await store.open()
    return store


def share_results(
    results: ResultStore | None, shared: Shared, config: ResultsConfig
) -> ResultStore | SharedResults | None:
    """Where there are replicas, results are read at any of them."""
    if results is None or shared.coordination is None:
        return results
    return SharedResults(results, shared.coordination, config, time.monotonic)


def reading_tool(results: ResultStore | SharedResults, config: Config, beside: Sequence[NativeTool]) -> NativeTool:
    """``result_read``, whose name nobody else may use."""
    if any(entry.tool.name == RESULT_READ for entry in beside):
        raise ConfigError(
            f"A native tool is named {RESULT_READ!r}, which is how large results are read.",
            hint="Rename it, or switch that off: [results] limit = 0.",
        )
    reader = ResultReader(results, config.results.limit or ResultsConfig().limit)
    made = define(reader.read, name=RESULT_READ, description=DESCRIPTION, security_level="read_only")
    return replace(made, tool=replace(made.tool, input_schema=INPUT_SCHEMA, output_schema=None, reads_results=True))
