SELECT 'documents have lost passages', count(*) FROM (
    SELECT d.key FROM toolcrib.kb_document d
    LEFT JOIN toolcrib.kb_passage p ON p.fleet = d.fleet AND p.document = d.key
    WHERE d.fleet = %(fleet)s GROUP BY d.key, d.passages HAVING count(p.ordinal) <> d.passages) AS lost
UNION ALL
SELECT 'documents have lost their text', count(*) FROM toolcrib.kb_document d
WHERE d.fleet = %(fleet)s AND NOT EXISTS (
    SELECT FROM toolcrib.kb_body b WHERE b.fleet = d.fleet AND b.document = d.key)
UNION ALL
SELECT 'passages have lost their vectors', count(*) FROM toolcrib.kb_passage p
JOIN toolcrib.kb_document d ON d.fleet = p.fleet AND d.key = p.document AND NOT d.lacks_vectors
JOIN toolcrib.kb_collection c ON c.fleet = d.fleet AND c.id = d.collection AND c.dimensions > 0
WHERE p.fleet = %(fleet)s AND NOT EXISTS (
    SELECT FROM toolcrib.kb_vector v
    WHERE v.fleet = p.fleet AND v.vectors = c.vectors AND v.document = p.document AND v.ordinal = p.ordinal)
UNION ALL
SELECT 'passages belong to no document', count(*) FROM toolcrib.kb_passage p
WHERE p.fleet = %(fleet)s AND NOT EXISTS (
    SELECT FROM toolcrib.kb_document d WHERE d.fleet = p.fleet AND d.key = p.document)
UNION ALL
SELECT 'vectors belong to no passage', count(*) FROM toolcrib.kb_vector v
WHERE v.fleet = %(fleet)s AND NOT EXISTS (
    SELECT FROM toolcrib.kb_passage p WHERE p.fleet = v.fleet AND p.document = v.document AND p.ordinal = v.ordinal)
