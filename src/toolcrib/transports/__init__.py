"""Ways to reach a server: bytes in, bytes out. Knows core and nothing of tools."""
