-- Keys are those of pawl.ID.Key; times are microseconds since the Unix epoch,
-- 0 is none. Bodies stand last, so that reading a row without them stays cheap.
-- Only what is in flight is indexed beside the primary keys. Conditions are
-- written with OR: IN over three or more would build a table at every write, and
-- iif would compare with every state.

PRAGMA application_id = 1348564844; -- 'Pawl'

CREATE TABLE worker (
  id         INTEGER PRIMARY KEY,
  uuid       BLOB    NOT NULL,
  workspace  TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'IDLE' OR state = 'RUNNING' OR state = 'PAUSED' OR state = 'COMPLETED' OR
    state = 'FAILED' OR state = 'TERMINATED'),
  seq        INTEGER NOT NULL,
  head       BLOB    NOT NULL,
  due_at     INTEGER NOT NULL,
  due_event  TEXT    NOT NULL,
  updated_at INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  host       TEXT    NOT NULL,
  pid        INTEGER NOT NULL,
  capacity   INTEGER NOT NULL,
  routes     TEXT    NOT NULL, -- JSON array
  handlers   TEXT    NOT NULL, -- JSON array
  metadata   TEXT
) STRICT;
CREATE INDEX worker_due ON worker (due_at) WHERE due_at > 0;
CREATE INDEX worker_living ON worker (id) WHERE state = 'IDLE' OR state = 'RUNNING' OR state = 'PAUSED';

CREATE TABLE worker_audit (
  worker     INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'IDLE' OR state = 'RUNNING' OR state = 'PAUSED' OR state = 'COMPLETED' OR
    state = 'FAILED' OR state = 'TERMINATED'),
  event      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  metadata   TEXT,
  at         INTEGER NOT NULL,
  hash       BLOB    NOT NULL,
  PRIMARY KEY (worker, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE definition (
  id         INTEGER PRIMARY KEY,
  hash       BLOB    NOT NULL,
  name       TEXT    NOT NULL,
  source     BLOB    NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE job (
  id           INTEGER PRIMARY KEY,
  uuid         BLOB    NOT NULL,
  workspace    TEXT    NOT NULL,
  definition   INTEGER NOT NULL,
  workflow     TEXT    NOT NULL,
  description  TEXT    NOT NULL,
  parent       INTEGER NOT NULL,
  continues    INTEGER NOT NULL,
  depth        INTEGER NOT NULL CHECK (depth BETWEEN 0 AND 5),
  worker_count INTEGER NOT NULL,
  private      INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'SUBMITTED' OR state = 'PENDING' OR state = 'RUNNING' OR state = 'COMPLETED' OR
    state = 'FAILED' OR state = 'CANCELED'),
  seq        INTEGER NOT NULL,
  head       BLOB    NOT NULL,
  due_at     INTEGER NOT NULL,
  due_event  TEXT    NOT NULL,
  updated_at INTEGER NOT NULL,
  route        INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  paused       INTEGER NOT NULL,
  mark         INTEGER NOT NULL,
  ending       TEXT    NOT NULL CHECK (ending = '' OR ending = 'FAILED' OR ending = 'CANCELED'),
  open         INTEGER NOT NULL,
  active       INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  completed_at INTEGER NOT NULL,
  inputs       TEXT,
  output       TEXT,
  error        TEXT,
  metadata     TEXT
) STRICT;
CREATE INDEX job_open ON job (state, route, paused, priority DESC, id)
  WHERE state = 'SUBMITTED' OR state = 'PENDING' OR state = 'RUNNING';
CREATE INDEX job_mark ON job (mark, id) WHERE mark <> 0;
CREATE INDEX job_due ON job (due_at) WHERE due_at > 0;

CREATE TABLE step (
  job        INTEGER NOT NULL,
  ord        INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state = 'pending' OR state = 'enqueued' OR state = 'in_progress' OR state = 'complete' OR
    state = 'retryable_error' OR state = 'permanent_error' OR state = 'cancelled' OR
    state = 'skipped' OR state = 'resolved_manually'),
  seq        INTEGER NOT NULL,
  head       BLOB    NOT NULL,
  due_at     INTEGER NOT NULL,
  due_event  TEXT    NOT NULL,
  updated_at INTEGER NOT NULL,
  mark       INTEGER NOT NULL,
  unmet      INTEGER NOT NULL,
  skipped    INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  claims     INTEGER NOT NULL,
  losses     INTEGER NOT NULL,
  worker     INTEGER NOT NULL,
  route      INTEGER NOT NULL,
  priority   INTEGER NOT NULL,
  total      INTEGER NOT NULL,
  made       INTEGER NOT NULL,
  live       INTEGER NOT NULL,
  enqueued_at  INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  completed_at INTEGER NOT NULL,
  -- Whose it is: of its worker while in progress, else of whoever serves its route.
  place      INTEGER NOT NULL,
  input      TEXT,
  output     TEXT,
  error      TEXT,
  PRIMARY KEY (job, ord)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_flight ON step (state, place, priority DESC, job, ord)
  WHERE state = 'enqueued' OR state = 'in_progress';
CREATE INDEX step_mark ON step (mark, job, priority DESC, ord) WHERE mark <> 0;
CREATE INDEX step_due ON step (due_at) WHERE due_at > 0;

-- The trail of jobs (ord 0) and steps.
CREATE TABLE audit (
  job        INTEGER NOT NULL,
  ord        INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (
    ord = 0 AND (state = 'SUBMITTED' OR state = 'PENDING' OR state = 'RUNNING' OR state = 'COMPLETED' OR
    state = 'FAILED' OR state = 'CANCELED')
    OR ord <> 0 AND (state = 'pending' OR state = 'enqueued' OR state = 'in_progress' OR state = 'complete' OR
    state = 'retryable_error' OR state = 'permanent_error' OR state = 'cancelled' OR
    state = 'skipped' OR state = 'resolved_manually')),
  event      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  metadata   TEXT,
  at         INTEGER NOT NULL,
  hash       BLOB    NOT NULL,
  PRIMARY KEY (job, ord, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  workspace    TEXT    NOT NULL,
  key          TEXT    NOT NULL,
  endpoint     TEXT    NOT NULL,
  request_hash BLOB    NOT NULL,
  status       INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  body         BLOB,
  PRIMARY KEY (workspace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_at) WHERE expires_at > 0;

CREATE TABLE refusal (
  id    INTEGER PRIMARY KEY,
  job   INTEGER NOT NULL,
  ord   INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  claim INTEGER NOT NULL,
  event TEXT    NOT NULL,
  actor TEXT    NOT NULL,
  why   TEXT    NOT NULL,
  data  TEXT
) STRICT;
CREATE INDEX refusal_job ON refusal (job, at);

-- What people and reports read (J10).

CREATE VIEW workers AS
SELECT 'w_' || lower(hex(uuid)) AS id, workspace AS workspace_id, state AS status,
  strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch') || printf('.%06dZ', created_at % 1000000) AS created_at,
  strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000, 'unixepoch') || printf('.%06dZ', updated_at % 1000000) AS updated_at,
  metadata
FROM worker;

CREATE VIEW worker_state_transitions AS
SELECT row_number() OVER (ORDER BY a.at, a.worker, a.seq) AS id,
  'w_' || lower(hex(w.uuid)) AS worker_id,
  lag(a.state) OVER (PARTITION BY a.worker ORDER BY a.seq) AS from_state, a.state AS to_state,
  a.reason,
  strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch') || printf('.%06dZ', a.at % 1000000) AS timestamp
FROM worker_audit a JOIN worker w ON w.id = a.worker;

CREATE VIEW jobs AS
SELECT 'j_' || lower(hex(j.uuid)) AS id, iif(p.id IS NULL, NULL, 'j_' || lower(hex(p.uuid))) AS parent_job_id,
  j.depth, j.state AS status, j.worker_count,
  strftime('%Y-%m-%dT%H:%M:%S', j.created_at / 1000000, 'unixepoch') || printf('.%06dZ', j.created_at % 1000000) AS created_at,
  iif(j.started_at = 0, NULL, strftime('%Y-%m-%dT%H:%M:%S', j.started_at / 1000000, 'unixepoch') || printf('.%06dZ', j.started_at % 1000000)) AS started_at,
  iif(j.completed_at = 0, NULL, strftime('%Y-%m-%dT%H:%M:%S', j.completed_at / 1000000, 'unixepoch') || printf('.%06dZ', j.completed_at % 1000000)) AS completed_at,
  j.description AS task_description
FROM job j LEFT JOIN job p ON p.id = nullif(j.parent, 0);

CREATE VIEW job_state_transitions AS
SELECT row_number() OVER (ORDER BY a.at, a.job, a.seq) AS id,
  'j_' || lower(hex(j.uuid)) AS job_id,
  lag(a.state) OVER (PARTITION BY a.job ORDER BY a.seq) AS from_state, a.state AS to_state,
  a.reason,
  strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch') || printf('.%06dZ', a.at % 1000000) AS timestamp
FROM audit a JOIN job j ON j.id = a.job
WHERE a.ord = 0;

CREATE VIEW idempotency_keys AS
SELECT key AS request_id, workspace AS workspace_id, endpoint, lower(hex(request_hash)) AS request_hash,
  status AS response_status, CAST(body AS TEXT) AS response_body,
  strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch') || printf('.%06dZ', created_at % 1000000) AS created_at,
  iif(expires_at = 0, NULL, strftime('%Y-%m-%dT%H:%M:%S', expires_at / 1000000, 'unixepoch') || printf('.%06dZ', expires_at % 1000000)) AS expires_at
FROM idempotency;
