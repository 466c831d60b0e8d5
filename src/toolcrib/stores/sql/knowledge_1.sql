-- Grows with every change, so that readers notice cheaply.
CREATE TABLE state (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO state VALUES (1, 1);

CREATE TABLE collection (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    metadata TEXT NOT NULL,
    embedder TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    created TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys are never used again: a segment that still names a removed document must not meet another one.
CREATE TABLE document (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    collection TEXT NOT NULL REFERENCES collection (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    title TEXT NOT NULL,
    type TEXT NOT NULL,
    hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    date TEXT NOT NULL,
    licence TEXT,
    version TEXT,
    metadata TEXT NOT NULL,
    added TEXT NOT NULL,
    characters INTEGER NOT NULL
) STRICT;
CREATE INDEX document_source ON document (collection, source);

-- Apart from what is known of the document, so that lists do not drag the texts along.
CREATE TABLE body (
    document INTEGER PRIMARY KEY REFERENCES document (key) ON DELETE CASCADE,
    text TEXT NOT NULL,
    outline TEXT NOT NULL
) STRICT;

CREATE TABLE segment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    collection TEXT NOT NULL REFERENCES collection (id) ON DELETE CASCADE,
    level INTEGER NOT NULL,
    size INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX segment_collection ON segment (collection);

-- A position of a segment that no row names is dead.
CREATE TABLE passage (
    document INTEGER NOT NULL REFERENCES document (key) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    first INTEGER NOT NULL,
    past INTEGER NOT NULL,
    page INTEGER,
    headings TEXT NOT NULL,
    mark TEXT NOT NULL,
    segment INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (document, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX passage_place ON passage (segment, position);
