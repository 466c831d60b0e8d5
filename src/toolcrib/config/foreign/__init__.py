"""How other programs write down their MCP servers; read here, never run, expanded or trusted."""
