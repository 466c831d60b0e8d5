"""The knowledge base in a SQLite file, and in memory."""
