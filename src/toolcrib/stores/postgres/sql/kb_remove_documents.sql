WITH vectors AS (
    DELETE FROM toolcrib.kb_vector
    WHERE fleet = %(fleet)s AND vectors = ANY(%(sets)s::bigint[]) AND document = ANY(%(keys)s::bigint[])
), passages AS (
    DELETE FROM toolcrib.kb_passage WHERE fleet = %(fleet)s AND document = ANY(%(keys)s::bigint[])
), bodies AS (
    DELETE FROM toolcrib.kb_body WHERE fleet = %(fleet)s AND document = ANY(%(keys)s::bigint[])
)
DELETE FROM toolcrib.kb_document WHERE fleet = %(fleet)s AND key = ANY(%(keys)s::bigint[])
