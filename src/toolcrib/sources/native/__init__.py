"""Native tools: plain Python functions."""
