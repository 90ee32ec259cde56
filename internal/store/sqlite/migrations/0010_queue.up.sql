-- Pauses of queues.
CREATE TABLE queue_pause (
  id         INTEGER PRIMARY KEY,
  uuid       BLOB    NOT NULL,
  workspace  TEXT    NOT NULL,
  queue      TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'paused' OR state = 'resumed'),
  seq        INTEGER NOT NULL,
  head       BLOB    NOT NULL,
  due_at     INTEGER NOT NULL,
  due_event  TEXT    NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX queue_pause_queue ON queue_pause (workspace, queue) WHERE state = 'paused';
CREATE TABLE queue_pause_audit (
  queue_pause INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'paused' OR state = 'resumed'),
  event      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  metadata   TEXT,
  at         INTEGER NOT NULL,
  hash       BLOB    NOT NULL,
  seals      BLOB,
  PRIMARY KEY (queue_pause, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept_queue_pause (id INTEGER, uuid BLOB, workspace TEXT, queue TEXT,
  created_at INTEGER, state TEXT, seq INTEGER, head BLOB, due_at INTEGER, due_event TEXT, updated_at INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS kept_queue_pause_audit (queue_pause INTEGER, seq INTEGER, state TEXT, event TEXT, reason TEXT, actor TEXT,
  request_id TEXT, metadata TEXT, at INTEGER, hash BLOB, seals BLOB) STRICT;
INSERT INTO queue_pause SELECT * FROM kept_queue_pause;
INSERT INTO queue_pause_audit SELECT * FROM kept_queue_pause_audit;
DROP TABLE kept_queue_pause;
DROP TABLE kept_queue_pause_audit;

-- Whether jobs were submitted as children of a job.
ALTER TABLE job ADD COLUMN children INTEGER NOT NULL DEFAULT 0;
UPDATE job SET children = 1
WHERE id IN (SELECT parent FROM job WHERE parent <> 0 AND parent_step = 0 AND state IN ('SUBMITTED', 'PENDING', 'RUNNING'));
