SELECT c.{column}, (
    SELECT vector_dims(v.embedding) FROM toolcrib.kb_vector v
    WHERE v.fleet = c.fleet AND v.vectors = c.{column} LIMIT 1)
FROM toolcrib.kb_collection c
WHERE c.fleet = %(fleet)s AND c.id = %(id)s AND c.{column} > 0
    AND (SELECT coalesce(sum(d.passages), 0) FROM toolcrib.kb_document d WHERE d.fleet = c.fleet AND d.collection = c.id)
        >= %(least)s
    AND NOT EXISTS (
        SELECT FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid
        JOIN pg_namespace n ON n.oid = k.relnamespace AND n.nspname = 'toolcrib'
        WHERE k.relname = 'kb_hnsw_' || c.{column} AND i.indisvalid)
    AND EXISTS (SELECT FROM toolcrib.kb_vector v WHERE v.fleet = c.fleet AND v.vectors = c.{column})
