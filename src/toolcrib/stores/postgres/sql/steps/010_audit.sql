-- The audit log: one chain of entries per fleet, whichever replica writes. The hash is SHA-256 over the previous
-- entry's hash, the entry's own number in decimal, a newline, and the body exactly as it is stored here. What follows
-- the body is taken from it so that entries can be found; `toolcrib audit verify` compares both.
CREATE TABLE toolcrib.audit_entry (
    fleet text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    body text NOT NULL,
    time bigint NOT NULL,
    event text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    decision text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    PRIMARY KEY (fleet, seq)
);

-- One line per 32 pages instead of one per entry: writing costs next to nothing, and pages that cannot hold what is
-- looked for are not read.
CREATE INDEX audit_entry_found ON toolcrib.audit_entry USING brin (
    time int8_minmax_ops,
    tool text_bloom_ops,
    caller text_bloom_ops,
    execution text_bloom_ops
) WITH (pages_per_range = 32, autosummarize = on);

-- The end of each chain, so that cutting entries off is found, too. Whoever appends holds its row.
CREATE TABLE toolcrib.audit_head (
    fleet text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    hash bytea NOT NULL
) WITH (fillfactor = 10);

CREATE FUNCTION toolcrib.audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit entries are never changed or deleted';
END
$$;

CREATE TRIGGER audit_entry_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON toolcrib.audit_entry
FOR EACH STATEMENT EXECUTE FUNCTION toolcrib.audit_is_kept();

CREATE TRIGGER audit_head_is_kept BEFORE DELETE OR TRUNCATE ON toolcrib.audit_head
FOR EACH STATEMENT EXECUTE FUNCTION toolcrib.audit_is_kept();

-- For people who look with a tool of their own.
CREATE VIEW toolcrib.audit_record AS
SELECT fleet, seq, to_timestamp(time / 1e6) AS time, event, tool, caller, decision, outcome, body
FROM toolcrib.audit_entry;
