"""What several replicas share, in PostgreSQL; psycopg is imported when the first connection is made."""
