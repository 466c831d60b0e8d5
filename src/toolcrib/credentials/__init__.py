"""Signing in at servers: what tokens there are, how they are had, renewed and kept; nothing else holds one."""
