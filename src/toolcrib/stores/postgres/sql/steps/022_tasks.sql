-- Each workspace counts its tasks for itself, from 1; numbers are never used again.
CREATE TABLE toolcrib.task (
    fleet text NOT NULL,
    workspace text NOT NULL,
    id integer NOT NULL,
    title text NOT NULL,
    description text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'active', 'done', 'dropped')),
    after integer[] NOT NULL,
    created text NOT NULL,
    changed text NOT NULL,
    PRIMARY KEY (fleet, workspace, id)
);

CREATE TABLE toolcrib.note (
    fleet text NOT NULL,
    workspace text NOT NULL,
    task integer NOT NULL,
    place integer NOT NULL,
    time text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (fleet, workspace, task, place),
    FOREIGN KEY (fleet, workspace, task) REFERENCES toolcrib.task (fleet, workspace, id)
);
