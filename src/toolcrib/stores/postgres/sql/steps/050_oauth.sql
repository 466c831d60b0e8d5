-- What the built-in authorization server keeps: for each record the text that a file would hold. Secrets are digests,
-- but for the key that access tokens are signed with.
CREATE TABLE toolcrib.oauth (
    fleet text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    until double precision NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (fleet, kind, id)
);
CREATE INDEX oauth_until ON toolcrib.oauth (fleet, until);
