"""toolcrib served: MCP, REST, the page and probes, for whoever is allowed in."""
