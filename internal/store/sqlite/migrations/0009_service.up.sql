-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.
CREATE TABLE token (
  id         INTEGER PRIMARY KEY,
  uuid       BLOB    NOT NULL,
  name       TEXT    NOT NULL,
  roles      TEXT    NOT NULL, -- JSON
  workspaces TEXT    NOT NULL, -- JSON; null: all
  sum        BLOB    NOT NULL, -- the SHA-256 of the secret
  expires_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'active' OR state = 'revoked' OR state = 'expired'),
  seq        INTEGER NOT NULL,
  head       BLOB    NOT NULL,
  due_at     INTEGER NOT NULL,
  due_event  TEXT    NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX token_name ON token (name) WHERE state = 'active';
CREATE INDEX token_due ON token (due_at, id) WHERE due_at > 0;
CREATE TABLE token_audit (
  token      INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'active' OR state = 'revoked' OR state = 'expired'),
  event      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  metadata   TEXT,
  at         INTEGER NOT NULL,
  hash       BLOB    NOT NULL,
  seals      BLOB,
  PRIMARY KEY (token, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept_token (id INTEGER, uuid BLOB, name TEXT, roles TEXT, workspaces TEXT, sum BLOB, expires_at INTEGER,
  created_at INTEGER, state TEXT, seq INTEGER, head BLOB, due_at INTEGER, due_event TEXT, updated_at INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS kept_token_audit (token INTEGER, seq INTEGER, state TEXT, event TEXT, reason TEXT, actor TEXT,
  request_id TEXT, metadata TEXT, at INTEGER, hash BLOB, seals BLOB) STRICT;
INSERT INTO token SELECT * FROM kept_token;
INSERT INTO token_audit SELECT * FROM kept_token_audit;
DROP TABLE kept_token;
DROP TABLE kept_token_audit;
-- (end of tokens)


-- The feed.

-- A row for each commit that wrote to a trail: rows names what it wrote. The newest row is
-- never deleted, so that pos only rises.
CREATE TABLE feed (
  pos INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  rows BLOB NOT NULL
) STRICT;

-- What distinguishes this feed from that of another file, and of this one before.
CREATE TABLE feed_epoch (epoch INTEGER NOT NULL) STRICT;
INSERT INTO feed_epoch VALUES (random());

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
