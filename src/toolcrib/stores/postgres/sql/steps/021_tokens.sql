-- Tokens as digests: for each the text that a file of tokens would hold, in the order they were made.
CREATE TABLE toolcrib.token (
    fleet text NOT NULL,
    id text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    body text NOT NULL,
    PRIMARY KEY (fleet, id)
);
