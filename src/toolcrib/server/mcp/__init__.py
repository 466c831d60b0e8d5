"""MCP served: one set of answers, over stdio and over HTTP, to clients of both eras."""
