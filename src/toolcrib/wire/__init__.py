"""MCP as values and tables: what the bytes mean and which answer is legal. Never waits, never opens anything."""
