SELECT DISTINCT vector_dims(v.embedding)
FROM toolcrib.kb_collection c
JOIN toolcrib.kb_document d ON d.fleet = c.fleet AND d.collection = c.id AND (c.coming <> '' OR d.lacks_vectors)
JOIN toolcrib.kb_vector v ON v.fleet = c.fleet AND v.document = d.key
    AND v.vectors = CASE WHEN c.coming <> '' THEN c.coming_vectors ELSE c.vectors END
WHERE c.fleet = %s AND c.id = %s
