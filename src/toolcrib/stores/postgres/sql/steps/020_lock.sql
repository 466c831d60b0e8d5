-- One row for each thing that is changed as a whole: it is locked while that changes, and says another word afterwards.
CREATE TABLE toolcrib.mark (
    fleet text NOT NULL,
    what text NOT NULL,
    stamp uuid NOT NULL DEFAULT gen_random_uuid(),
    PRIMARY KEY (fleet, what)
);

-- What discovery found, with the pins: for each server the text that a lock file would hold.
CREATE TABLE toolcrib.record (
    fleet text NOT NULL,
    server text NOT NULL,
    body text NOT NULL,
    changed timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (fleet, server)
);

-- What people answered once and for all.
CREATE TABLE toolcrib.answer (
    fleet text NOT NULL,
    tool text NOT NULL,
    caller text NOT NULL,
    allow boolean NOT NULL,
    at text NOT NULL,
    by text NOT NULL,
    PRIMARY KEY (fleet, tool, caller)
);
