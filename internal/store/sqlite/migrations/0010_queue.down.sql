-- An older program knows no pauses of queues: they are kept aside for the way up.
CREATE TABLE kept_queue_pause (id INTEGER, uuid BLOB, workspace TEXT, queue TEXT,
  created_at INTEGER, state TEXT, seq INTEGER, head BLOB, due_at INTEGER, due_event TEXT, updated_at INTEGER) STRICT;
CREATE TABLE kept_queue_pause_audit (queue_pause INTEGER, seq INTEGER, state TEXT, event TEXT, reason TEXT, actor TEXT,
  request_id TEXT, metadata TEXT, at INTEGER, hash BLOB, seals BLOB) STRICT;
INSERT INTO kept_queue_pause SELECT id, uuid, workspace, queue,
  created_at, state, seq, head, due_at, due_event, updated_at FROM queue_pause;
INSERT INTO kept_queue_pause_audit SELECT queue_pause, seq, state, event, reason, actor, request_id, metadata, at, hash, seals FROM queue_pause_audit;
DROP TABLE queue_pause_audit;
DROP TABLE queue_pause;

ALTER TABLE job DROP COLUMN children;
