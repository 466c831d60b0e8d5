-- What is needed to call servers for people, sealed before it comes here.
CREATE TABLE toolcrib.credential (
    fleet text NOT NULL,
    name text COLLATE "C" NOT NULL,
    sealed bytea NOT NULL,
    PRIMARY KEY (fleet, name)
);

-- Who has the right to renew one, by the database's clock.
CREATE TABLE toolcrib.credential_claim (
    fleet text NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (fleet, name)
);
