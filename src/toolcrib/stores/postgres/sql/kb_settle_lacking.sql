UPDATE toolcrib.kb_document d SET lacks_vectors = false
WHERE d.passages = (
    SELECT count(*) FROM toolcrib.kb_vector v WHERE v.fleet = d.fleet AND v.vectors = %s AND v.document = d.key)
    AND d.fleet = %s AND d.collection = %s AND d.lacks_vectors
