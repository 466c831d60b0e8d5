"""The load generator's side of MCP: small clients without an SDK, one file per way to reach a contender."""
