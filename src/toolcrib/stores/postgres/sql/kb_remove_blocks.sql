WITH postings AS (
    DELETE FROM toolcrib.kb_posting WHERE fleet = %(fleet)s AND block = ANY(%(blocks)s::bigint[])
), dead AS (
    DELETE FROM toolcrib.kb_dead
    WHERE fleet = %(fleet)s AND collection = %(collection)s AND document = ANY(%(documents)s::bigint[])
)
DELETE FROM toolcrib.kb_block WHERE fleet = %(fleet)s AND id = ANY(%(blocks)s::bigint[])
