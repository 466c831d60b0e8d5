-- Each workspace counts its tasks for itself, from 1; numbers are never used again.
CREATE TABLE task (
    workspace TEXT NOT NULL,
    id INTEGER NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'active', 'done', 'dropped')),
    created TEXT NOT NULL,
    changed TEXT NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE waits (
    workspace TEXT NOT NULL,
    task INTEGER NOT NULL,
    place INTEGER NOT NULL,
    after INTEGER NOT NULL,
    PRIMARY KEY (workspace, task, place),
    FOREIGN KEY (workspace, task) REFERENCES task (workspace, id),
    FOREIGN KEY (workspace, after) REFERENCES task (workspace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
    workspace TEXT NOT NULL,
    task INTEGER NOT NULL,
    place INTEGER NOT NULL,
    time TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (workspace, task, place),
    FOREIGN KEY (workspace, task) REFERENCES task (workspace, id)
) STRICT, WITHOUT ROWID;
