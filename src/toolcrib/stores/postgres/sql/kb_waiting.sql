FROM toolcrib.kb_collection c
JOIN toolcrib.kb_document d ON d.fleet = c.fleet AND d.collection = c.id AND (c.coming <> '' OR d.lacks_vectors)
JOIN toolcrib.kb_passage p ON p.fleet = d.fleet AND p.document = d.key
WHERE c.fleet = %s AND c.id = %s AND (p.document, p.ordinal) > (%s, %s)
    AND NOT EXISTS (
        SELECT FROM toolcrib.kb_vector v
        WHERE v.fleet = c.fleet AND v.vectors = CASE WHEN c.coming <> '' THEN c.coming_vectors ELSE c.vectors END
            AND v.document = p.document AND v.ordinal = p.ordinal)
