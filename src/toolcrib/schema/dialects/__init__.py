"""Dialects: the catalogue's definitions as each model provider wants them."""
