"""The edges people and programs come in by; each knows only the Crib."""
