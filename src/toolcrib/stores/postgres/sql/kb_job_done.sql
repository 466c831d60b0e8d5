-- "IS TRUE" has each row looked up in a table of hashes: a join would be planned for few rows, and there are hundreds.
DELETE FROM toolcrib.kb_job
WHERE fleet = %s AND collection = %s AND source = ANY(%s::text[])
    AND ((source, worker, added) IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::timestamptz[]))) IS TRUE
