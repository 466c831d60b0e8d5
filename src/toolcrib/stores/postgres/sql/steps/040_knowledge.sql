-- The knowledge base. Grows with every change, so that readers notice cheaply; written last in each change.
CREATE TABLE toolcrib.kb_state (
    fleet text PRIMARY KEY,
    generation bigint NOT NULL
);

-- Keys of documents, blocks and sets of vectors; none is used again.
CREATE SEQUENCE toolcrib.kb_number;

CREATE TABLE toolcrib.kb_collection (
    fleet text NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    embedder text NOT NULL,
    dimensions integer NOT NULL,
    created text NOT NULL,
    embedder_name text NOT NULL,
    -- The embedding that is being made, as JSON; empty if none is.
    coming text NOT NULL,
    -- The set of vectors that is searched, and the one that is being made.
    vectors bigint NOT NULL,
    coming_vectors bigint NOT NULL,
    PRIMARY KEY (fleet, id)
);

CREATE TABLE toolcrib.kb_document (
    fleet text NOT NULL,
    key bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    title text NOT NULL,
    type text NOT NULL,
    hash text NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    date text COLLATE "C" NOT NULL,
    licence text,
    version text,
    metadata text NOT NULL,
    added text COLLATE "C" NOT NULL,
    characters bigint NOT NULL,
    passages integer NOT NULL,
    -- It came in while its collection's embedder was away.
    lacks_vectors boolean NOT NULL,
    PRIMARY KEY (fleet, key),
    UNIQUE (fleet, id)
);
CREATE INDEX kb_document_source ON toolcrib.kb_document (fleet, collection, source);
CREATE INDEX kb_document_lacking ON toolcrib.kb_document (fleet, collection) WHERE lacks_vectors;

-- Texts as UTF-8: text cannot hold every character that documents do.
CREATE TABLE toolcrib.kb_body (
    fleet text NOT NULL,
    document bigint NOT NULL,
    text bytea NOT NULL,
    outline text NOT NULL,
    PRIMARY KEY (fleet, document)
) WITH (toast_tuple_target = 8160);
-- To compress it takes the server longer than all else that it does with a document.
ALTER TABLE toolcrib.kb_body ALTER COLUMN text SET STORAGE EXTERNAL;

CREATE TABLE toolcrib.kb_passage (
    fleet text NOT NULL,
    document bigint NOT NULL,
    ordinal integer NOT NULL,
    first integer NOT NULL,
    past integer NOT NULL,
    page integer,
    headings text NOT NULL,
    mark text NOT NULL,
    PRIMARY KEY (fleet, document, ordinal)
);

-- Passages whose words were indexed together; ``head`` says whose they are and how long their fields are.
CREATE TABLE toolcrib.kb_block (
    fleet text NOT NULL,
    id bigint NOT NULL,
    collection text COLLATE "C" NOT NULL,
    level integer NOT NULL,
    size integer NOT NULL,
    since bigint NOT NULL,
    bytes bigint NOT NULL,
    head bytea NOT NULL,
    PRIMARY KEY (fleet, id)
);
ALTER TABLE toolcrib.kb_block ALTER COLUMN head SET STORAGE EXTERNAL;
CREATE INDEX kb_block_collection ON toolcrib.kb_block (fleet, collection, id);

-- Terms of a block, in order and some in a row: for each its passages by position, and how often each field holds it.
CREATE TABLE toolcrib.kb_posting (
    fleet text NOT NULL,
    block bigint NOT NULL,
    first text COLLATE "C" NOT NULL,
    -- Each term between two zeros, and where what is held of it ends.
    terms bytea NOT NULL,
    ends bytea NOT NULL,
    held bytea NOT NULL,
    PRIMARY KEY (fleet, block, first)
) WITH (toast_tuple_target = 8160);
ALTER TABLE toolcrib.kb_posting ALTER COLUMN held SET STORAGE EXTERNAL;

-- Documents that are gone and that a block still names; since which generation.
CREATE TABLE toolcrib.kb_dead (
    fleet text NOT NULL,
    collection text COLLATE "C" NOT NULL,
    document bigint NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (fleet, collection, document)
);

-- Every set of vectors there is; one that no collection names is on its way out.
CREATE TABLE toolcrib.kb_set (
    fleet text NOT NULL,
    id bigint NOT NULL,
    PRIMARY KEY (fleet, id)
);

-- Sources that wait to become documents; whoever works on one has it until the lease ends.
CREATE TABLE toolcrib.kb_job (
    fleet text NOT NULL,
    collection text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    what text NOT NULL,
    adding text NOT NULL,
    worker text NOT NULL DEFAULT '',
    until timestamptz NOT NULL DEFAULT '-infinity',
    attempts integer NOT NULL DEFAULT 0,
    added timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (fleet, collection, source)
) WITH (fillfactor = 50);
-- What changes while a job is worked on is in no index, so that taking it writes its row alone.
CREATE INDEX kb_job_added ON toolcrib.kb_job (fleet, collection, added);

-- Vectors need pgvector. Where it is not installed, all else works, and the knowledge base says what is missing.
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
    CREATE TABLE toolcrib.kb_vector (
        fleet text NOT NULL,
        vectors bigint NOT NULL,
        document bigint NOT NULL,
        ordinal integer NOT NULL,
        embedding halfvec NOT NULL,
        PRIMARY KEY (fleet, vectors, document, ordinal)
    ) WITH (toast_tuple_target = 8160);
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'without pgvector: %', SQLERRM;
END
$$;
