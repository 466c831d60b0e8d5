"""The command line: data on stdout, talk on stderr, one file per command in ``commands``."""
