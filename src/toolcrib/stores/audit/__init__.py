"""The audit log: a chain of entries in a file of this machine."""
