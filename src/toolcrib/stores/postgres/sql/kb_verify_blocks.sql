SELECT b.id, b.collection, b.bytes, coalesce(sum(octet_length(p.held)), 0)::bigint
FROM toolcrib.kb_block b LEFT JOIN toolcrib.kb_posting p ON p.fleet = b.fleet AND p.block = b.id
WHERE b.fleet = %s GROUP BY b.id, b.collection, b.bytes ORDER BY b.id
