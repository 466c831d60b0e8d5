SELECT v.document, v.ordinal, v.embedding::real[]
FROM unnest(%s::bigint[], %s::integer[]) AS wanted (document, ordinal)
JOIN toolcrib.kb_document d ON d.fleet = %s AND d.key = wanted.document
JOIN toolcrib.kb_collection c ON c.fleet = d.fleet AND c.id = d.collection AND (c.coming <> '' OR d.lacks_vectors)
JOIN toolcrib.kb_vector v ON v.fleet = c.fleet
    AND v.vectors = CASE WHEN c.coming <> '' THEN c.coming_vectors ELSE c.vectors END
    AND v.document = wanted.document AND v.ordinal = wanted.ordinal
