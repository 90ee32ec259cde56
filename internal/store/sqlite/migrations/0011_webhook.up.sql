-- Webhooks.
CREATE TABLE webhook (
  id           INTEGER PRIMARY KEY,
  uuid         BLOB    NOT NULL,
  workspace    TEXT    NOT NULL, -- empty: all
  name         TEXT    NOT NULL,
  url          TEXT    NOT NULL,
  job          TEXT    NOT NULL,
  machines     TEXT    NOT NULL, -- JSON; null: all
  events       TEXT    NOT NULL, -- JSON; null: all
  begin        TEXT    NOT NULL, -- a place in the feed
  created_at   INTEGER NOT NULL,
  state        TEXT    NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'disabled' OR state = 'deleted'),
  seq          INTEGER NOT NULL,
  head         BLOB    NOT NULL,
  due_at       INTEGER NOT NULL,
  due_event    TEXT    NOT NULL,
  updated_at   INTEGER NOT NULL,
  secret       BLOB    NOT NULL, -- signs what is sent
  former       BLOB    NOT NULL, -- signs it, too, until former_until
  former_until INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX webhook_name ON webhook (workspace, name) WHERE state <> 'deleted';
CREATE TABLE webhook_audit (
  webhook    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'disabled' OR state = 'deleted'),
  event      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  metadata   TEXT,
  at         INTEGER NOT NULL,
  hash       BLOB    NOT NULL,
  seals      BLOB,
  PRIMARY KEY (webhook, seq)
) STRICT, WITHOUT ROWID;

-- How far a webhook has come. No trail has it.
CREATE TABLE webhook_place (
  webhook       INTEGER PRIMARY KEY,
  version       INTEGER NOT NULL,
  token         TEXT    NOT NULL, -- of the feed
  moved         INTEGER NOT NULL, -- how often the token has moved
  failing_since INTEGER NOT NULL,
  failures      INTEGER NOT NULL,
  error         TEXT    NOT NULL,
  gap_at        INTEGER NOT NULL,
  gap           TEXT    NOT NULL
) STRICT;

-- What it has sent last.
CREATE TABLE webhook_delivery (
  id        INTEGER PRIMARY KEY,
  webhook   INTEGER NOT NULL,
  moved     INTEGER NOT NULL, -- of the place; -1: somebody asked for it
  message   TEXT    NOT NULL,
  type      TEXT    NOT NULL,
  attempt   INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  duration  INTEGER NOT NULL, -- us
  status    INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  error     TEXT    NOT NULL,
  body      BLOB    NOT NULL
) STRICT;
CREATE INDEX webhook_deliveries ON webhook_delivery (webhook, id);

CREATE TABLE IF NOT EXISTS kept_webhook (id INTEGER, uuid BLOB, workspace TEXT, name TEXT, url TEXT, job TEXT, machines TEXT, events TEXT,
  begin TEXT, created_at INTEGER, state TEXT, seq INTEGER, head BLOB, due_at INTEGER, due_event TEXT, updated_at INTEGER,
  secret BLOB, former BLOB, former_until INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS kept_webhook_audit (webhook INTEGER, seq INTEGER, state TEXT, event TEXT, reason TEXT, actor TEXT,
  request_id TEXT, metadata TEXT, at INTEGER, hash BLOB, seals BLOB) STRICT;
CREATE TABLE IF NOT EXISTS kept_webhook_place (webhook INTEGER, version INTEGER, token TEXT, moved INTEGER, failing_since INTEGER,
  failures INTEGER, error TEXT, gap_at INTEGER, gap TEXT) STRICT;
INSERT INTO webhook SELECT * FROM kept_webhook;
INSERT INTO webhook_audit SELECT * FROM kept_webhook_audit;
INSERT INTO webhook_place SELECT * FROM kept_webhook_place;
DROP TABLE kept_webhook;
DROP TABLE kept_webhook_audit;
DROP TABLE kept_webhook_place;
