SELECT s.id FROM toolcrib.kb_set s
WHERE s.fleet = %s AND NOT EXISTS (
    SELECT FROM toolcrib.kb_collection c WHERE c.fleet = s.fleet AND s.id IN (c.vectors, c.coming_vectors))
ORDER BY s.id
