DELETE FROM toolcrib.kb_vector v USING unnest(%s::bigint[], %s::integer[]) AS those (document, ordinal)
WHERE v.fleet = %s AND v.vectors = %s AND v.document = those.document AND v.ordinal = those.ordinal
