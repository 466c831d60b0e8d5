"""The command line: data on stdout, talk on stderr, one file per group of commands in ``commands``."""
