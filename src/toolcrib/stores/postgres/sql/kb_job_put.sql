INSERT INTO toolcrib.kb_job (fleet, collection, adding, source, what)
SELECT %s, %s, %s, source, what FROM unnest(%s::text[], %s::text[]) AS given (source, what)
ON CONFLICT (fleet, collection, source) DO UPDATE
SET what = excluded.what, adding = excluded.adding, worker = '', until = '-infinity', attempts = 0,
    added = clock_timestamp()
