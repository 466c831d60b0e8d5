-- Everything of ours lies in a schema of its own. The steps it was brought up to date by:
CREATE SCHEMA IF NOT EXISTS toolcrib;
CREATE TABLE toolcrib.step (
    version integer PRIMARY KEY,
    name text NOT NULL,
    hash text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
