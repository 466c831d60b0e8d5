"""Small faults put into the modules that decide, one at a time, to see whether the tests notice."""
