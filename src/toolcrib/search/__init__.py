"""Finding passages and tools by words and by meaning: pure computation over numpy arrays, no I/O, never waits."""
