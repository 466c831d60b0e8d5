UPDATE toolcrib.kb_job
SET worker = %s, until = clock_timestamp() + %s * interval '1 second', attempts = attempts + 1
WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM toolcrib.kb_job
    WHERE fleet = %s AND collection = %s AND adding = %s AND until < clock_timestamp()
        AND source NOT IN (SELECT unnest(%s::text[]))
    ORDER BY added LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING source, what, attempts, worker, added
