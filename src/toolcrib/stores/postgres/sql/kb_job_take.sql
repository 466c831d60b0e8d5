WITH chosen AS (
    SELECT source FROM toolcrib.kb_job
    WHERE fleet = %s AND collection = %s AND adding = %s AND until < clock_timestamp() AND NOT source = ANY(%s::text[])
    ORDER BY added, source LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE toolcrib.kb_job j
SET worker = %s, until = clock_timestamp() + %s * interval '1 second', attempts = j.attempts + 1
FROM chosen WHERE j.fleet = %s AND j.collection = %s AND j.source = chosen.source
RETURNING j.source, j.what, j.attempts, j.worker, j.added
