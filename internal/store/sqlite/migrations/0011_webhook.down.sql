-- What an older program could not read is kept aside for the way up; the last deliveries are
-- dropped.
CREATE TABLE kept_webhook (id INTEGER, uuid BLOB, workspace TEXT, name TEXT, url TEXT, job TEXT, machines TEXT, events TEXT,
  begin TEXT, created_at INTEGER, state TEXT, seq INTEGER, head BLOB, due_at INTEGER, due_event TEXT, updated_at INTEGER,
  secret BLOB, former BLOB, former_until INTEGER) STRICT;
CREATE TABLE kept_webhook_audit (webhook INTEGER, seq INTEGER, state TEXT, event TEXT, reason TEXT, actor TEXT,
  request_id TEXT, metadata TEXT, at INTEGER, hash BLOB, seals BLOB) STRICT;
CREATE TABLE kept_webhook_place (webhook INTEGER, version INTEGER, token TEXT, moved INTEGER, failing_since INTEGER,
  failures INTEGER, error TEXT, gap_at INTEGER, gap TEXT) STRICT;
INSERT INTO kept_webhook SELECT id, uuid, workspace, name, url, job, machines, events, begin, created_at, state, seq, head,
  due_at, due_event, updated_at, secret, former, former_until FROM webhook;
INSERT INTO kept_webhook_audit SELECT webhook, seq, state, event, reason, actor, request_id, metadata, at, hash, seals FROM webhook_audit;
INSERT INTO kept_webhook_place SELECT webhook, version, token, moved, failing_since, failures, error, gap_at, gap FROM webhook_place;
DROP TABLE webhook_delivery;
DROP TABLE webhook_place;
DROP TABLE webhook_audit;
DROP TABLE webhook;
