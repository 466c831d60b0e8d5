-- One row per entry. The hash is SHA-256 over the previous row's hash, the row's own number in decimal, a newline,
-- and the body exactly as it is stored here.
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- The end of the chain, so that cutting rows off is found, too.
CREATE TABLE head (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO head VALUES (1, 0, zeroblob(32));

CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry
BEGIN
    SELECT RAISE(ABORT, 'audit entries are never changed');
END;

CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry
BEGIN
    SELECT RAISE(ABORT, 'audit entries are never deleted');
END;

-- For people who look with a tool of their own.
CREATE VIEW record AS
SELECT
    seq,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> 'time') / 1e6, 'unixepoch') AS time,
    body ->> 'event' AS event,
    body ->> 'tool' AS tool,
    body ->> 'caller' AS caller,
    body ->> 'decision' AS decision,
    body ->> 'outcome' AS outcome,
    body ->> 'duration_ms' AS duration_ms,
    body
FROM entry;
