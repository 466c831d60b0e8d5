"""How all tests are run: files handed out to workers one by one, everything a worker started ended with it."""
