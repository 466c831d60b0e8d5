ALTER TABLE collection ADD COLUMN embedder_name TEXT NOT NULL DEFAULT '';
-- The embedding that is being made, as JSON; empty if none is.
ALTER TABLE collection ADD COLUMN coming TEXT NOT NULL DEFAULT '';

-- Vectors put aside until all of them are there; then they go into the segments in one step.
CREATE TABLE staged (
    document INTEGER NOT NULL REFERENCES document (key) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (document, ordinal)
) STRICT;

-- Documents that came in while their collection's embedder was away.
CREATE TABLE lacking (
    document INTEGER PRIMARY KEY REFERENCES document (key) ON DELETE CASCADE
) STRICT;
