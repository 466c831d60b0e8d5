SELECT p.document, p.ordinal FROM unnest(%s::bigint[], %s::integer[]) AS wanted (document, ordinal)
JOIN toolcrib.kb_passage p ON p.fleet = %s AND p.document = wanted.document AND p.ordinal = wanted.ordinal
