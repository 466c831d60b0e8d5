WITH gone AS (
    DELETE FROM toolcrib.kb_document WHERE fleet = %(fleet)s AND collection = %(id)s RETURNING key
), bodies AS (
    DELETE FROM toolcrib.kb_body USING gone WHERE fleet = %(fleet)s AND document = gone.key
), passages AS (
    DELETE FROM toolcrib.kb_passage USING gone WHERE fleet = %(fleet)s AND document = gone.key
), blocks AS (
    DELETE FROM toolcrib.kb_block WHERE fleet = %(fleet)s AND collection = %(id)s RETURNING id
), postings AS (
    DELETE FROM toolcrib.kb_posting USING blocks WHERE fleet = %(fleet)s AND block = blocks.id
), dead AS (
    DELETE FROM toolcrib.kb_dead WHERE fleet = %(fleet)s AND collection = %(id)s
), jobs AS (
    DELETE FROM toolcrib.kb_job WHERE fleet = %(fleet)s AND collection = %(id)s
)
DELETE FROM toolcrib.kb_collection WHERE fleet = %(fleet)s AND id = %(id)s
