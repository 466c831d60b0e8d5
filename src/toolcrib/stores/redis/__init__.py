"""Redis, or Valkey, as what replicas agree through."""
