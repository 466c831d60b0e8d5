SELECT collection, adding FROM toolcrib.kb_job
WHERE fleet = %s AND (%s::text IS NULL OR collection = %s) AND until < clock_timestamp()
    AND NOT source = ANY(%s::text[])
ORDER BY added LIMIT 1
