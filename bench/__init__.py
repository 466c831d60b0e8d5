"""One command per figure: contenders interleaved in one run, ratios printed beside the goals.

The load generator lives in an environment of its own and speaks MCP without any SDK, so that a figure shows the
contender and not the client. Nothing here is imported by toolcrib.
"""
