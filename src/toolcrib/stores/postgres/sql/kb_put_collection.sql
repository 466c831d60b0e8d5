INSERT INTO toolcrib.kb_collection (
    fleet, id, name, description, metadata, embedder, dimensions, created, embedder_name, coming, vectors,
    coming_vectors)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (fleet, id) DO UPDATE SET name = excluded.name, description = excluded.description,
    metadata = excluded.metadata, embedder = excluded.embedder, dimensions = excluded.dimensions,
    embedder_name = excluded.embedder_name, coming = excluded.coming, coming_vectors = excluded.coming_vectors
