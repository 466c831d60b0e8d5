DELETE FROM toolcrib.kb_job j
USING unnest(%s::text[], %s::text[], %s::timestamptz[]) AS done (source, worker, asked)
WHERE j.fleet = %s AND j.collection = %s
    AND j.source = done.source AND j.worker = done.worker AND j.added = done.asked
