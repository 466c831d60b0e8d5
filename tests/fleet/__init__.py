"""The fleet: real MCP servers and real MCP clients, pinned, for tests that leave nothing to imagination."""
