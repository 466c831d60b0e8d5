UPDATE toolcrib.kb_collection
SET embedder = %s, dimensions = %s, embedder_name = %s, vectors = %s, coming = '', coming_vectors = 0
WHERE fleet = %s AND id = %s
