-- In the reverse order of the way up. What an older program could not read is kept aside
-- for the way up; what can be lost is dropped.

-- Reservations of slots.

DROP TABLE reservation;

-- (end of reservations)


-- Workers of other machines.

-- An older program takes them for dead, and they register again after the way up.
DROP TABLE remote;
ALTER TABLE worker DROP COLUMN silence;

-- (end of workers)


-- The feed.

DROP TABLE feed_epoch;
DROP TABLE feed;

-- (end of the feed)


-- Tokens.
CREATE TABLE kept_token (id INTEGER, uuid BLOB, name TEXT, roles TEXT, workspaces TEXT, sum BLOB, expires_at INTEGER,
  created_at INTEGER, state TEXT, seq INTEGER, head BLOB, due_at INTEGER, due_event TEXT, updated_at INTEGER) STRICT;
CREATE TABLE kept_token_audit (token INTEGER, seq INTEGER, state TEXT, event TEXT, reason TEXT, actor TEXT,
  request_id TEXT, metadata TEXT, at INTEGER, hash BLOB, seals BLOB) STRICT;
INSERT INTO kept_token SELECT id, uuid, name, roles, workspaces, sum, expires_at,
  created_at, state, seq, head, due_at, due_event, updated_at FROM token;
INSERT INTO kept_token_audit SELECT token, seq, state, event, reason, actor, request_id, metadata, at, hash, seals FROM token_audit;
DROP TABLE token_audit;
DROP TABLE token;
-- (end of tokens)
