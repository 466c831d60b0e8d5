-- Where pgvector was installed after the step that wanted it.
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
CREATE TABLE IF NOT EXISTS toolcrib.kb_vector (
    fleet text NOT NULL,
    vectors bigint NOT NULL,
    document bigint NOT NULL,
    ordinal integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (fleet, vectors, document, ordinal)
) WITH (toast_tuple_target = 8160);
