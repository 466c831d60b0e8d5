"""Servers as child processes: started, confined, and ended with everything below them."""
