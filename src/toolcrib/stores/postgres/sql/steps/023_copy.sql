-- How far each part of what a machine had in its own files has come; written together with the rows it counts.
CREATE TABLE toolcrib.copying (
    fleet text NOT NULL,
    part text NOT NULL,
    source text NOT NULL,
    copied bigint NOT NULL DEFAULT 0,
    is_done boolean NOT NULL DEFAULT false,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (fleet, part)
);
