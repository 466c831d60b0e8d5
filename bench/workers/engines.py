"""PostgreSQL (durable, with pgvector) and Redis for a figure: prints their addresses, and ends when its input does."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fleet.engines import a_postgres, a_redis

SETTINGS = ("fsync=on", "synchronous_commit=on", "shared_buffers=256MB", "max_connections=100", "max_wal_size=4GB")


def main() -> None:
    with a_postgres(SETTINGS) as postgres, a_redis() as redis:
        print(json.dumps({"postgres": postgres.fresh_database(), "redis": redis.url()}), flush=True)
        sys.stdin.read()


main()
