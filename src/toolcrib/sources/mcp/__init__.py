"""MCP servers as sources: linked, supervised, understood in either era."""
