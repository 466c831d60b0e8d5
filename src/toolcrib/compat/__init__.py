"""Modules with other packages' names, for programs that move to toolcrib."""
