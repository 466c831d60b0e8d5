"""A directory with its configuration, and the running Crib made from it."""
