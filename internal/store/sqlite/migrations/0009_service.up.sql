-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.

-- (end of tokens)


-- The feed.

-- (end of the feed)


-- Workers of other machines.

ALTER TABLE worker ADD COLUMN silence INTEGER NOT NULL DEFAULT 0; -- ns; 0: its process holds a lock

-- The conversation with each worker that reaches the database through a server, and its
-- last beat.
CREATE TABLE remote (
  worker INTEGER PRIMARY KEY,
  turn   INTEGER NOT NULL,
  tries  INTEGER NOT NULL,
  at     INTEGER NOT NULL
) STRICT;

-- (end of workers)


-- Reservations of slots.

CREATE TABLE reservation (
  uuid       BLOB    PRIMARY KEY,
  workspace  TEXT    NOT NULL,
  depth      INTEGER NOT NULL,
  slots      INTEGER NOT NULL CHECK (slots > 0),
  pool       INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  actor      TEXT    NOT NULL,
  reason     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX reservation_pool ON reservation (pool, expires_at);

-- (end of reservations)
