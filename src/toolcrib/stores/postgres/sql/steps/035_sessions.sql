-- Sessions of MCP clients, so that any replica can go on with them. The key is a hash: what lets a client in is not here.
CREATE TABLE toolcrib.session (
    fleet text NOT NULL,
    key text NOT NULL,
    caller text NOT NULL,
    address text NOT NULL,
    version text NOT NULL,
    client bytea NOT NULL,
    opened_at double precision NOT NULL,
    used timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fleet, key)
);
CREATE INDEX session_used ON toolcrib.session (fleet, used);

-- What only the replicas of one fleet may know, so that each can check what another one signed.
CREATE TABLE toolcrib.secret (
    fleet text NOT NULL,
    name text NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (fleet, name)
);
