-- When a mark is to be looked at is lost: all of them are looked at in the order of keys.

DROP VIEW job_state_transitions;
DROP VIEW jobs;

ALTER TABLE job RENAME TO job_6;
DROP INDEX job_open;
DROP INDEX job_due;
DROP INDEX job_pool;
DROP INDEX job_quota;
DROP INDEX job_parent;
DROP INDEX job_continues;
DROP INDEX job_mark_at;

CREATE TABLE job (
  id           INTEGER PRIMARY KEY,
  uuid         BLOB    NOT NULL,
  workspace    TEXT    NOT NULL,
  workflow     TEXT    NOT NULL,
  description  TEXT    NOT NULL,
  parent       INTEGER NOT NULL,
  parent_step  INTEGER NOT NULL,
  continues    INTEGER NOT NULL,
  schedule     INTEGER NOT NULL,
  depth        INTEGER NOT NULL CHECK (depth BETWEEN 0 AND 5),
  private      INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  state        TEXT    NOT NULL CHECK (state = 'SUBMITTED' OR state = 'PENDING' OR state = 'RUNNING' OR state = 'COMPLETED' OR
    state = 'FAILED' OR state = 'CANCELED'),
  seq          INTEGER NOT NULL,
  head         BLOB    NOT NULL,
  due_at       INTEGER NOT NULL,
  due_event    TEXT    NOT NULL,
  updated_at   INTEGER NOT NULL,
  definition   INTEGER NOT NULL,
  version      INTEGER NOT NULL,
  worker_count INTEGER NOT NULL,
  route        INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  rank         INTEGER NOT NULL,
  pool         INTEGER NOT NULL,
  quota        INTEGER NOT NULL,
  paused       INTEGER NOT NULL,
  mark         INTEGER NOT NULL,
  ending       TEXT    NOT NULL CHECK (ending = '' OR ending = 'COMPLETED' OR ending = 'FAILED' OR ending = 'CANCELED'),
  hooks        INTEGER NOT NULL,
  open         INTEGER NOT NULL,
  blocked      INTEGER NOT NULL,
  active       INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  completed_at INTEGER NOT NULL,
  inputs       TEXT,
  output       TEXT,
  error        TEXT,
  metadata     TEXT
) STRICT;
INSERT INTO job (id, uuid, workspace, workflow, description, parent, parent_step, continues, schedule, depth, private, created_at, state, seq, head, due_at,
  due_event, updated_at, definition, version, worker_count, route, priority, rank, pool, quota, paused, mark, ending, hooks, open, blocked,
  active, started_at, completed_at, inputs, output, error, metadata)
SELECT id, uuid, workspace, workflow, description, parent, parent_step, continues, schedule, depth, private, created_at, state, seq, head, due_at,
  due_event, updated_at, definition, version, worker_count, route, priority, rank, pool, quota, paused, mark, ending, hooks, open, blocked,
  active, started_at, completed_at, inputs, output, error, metadata
FROM job_6;
DROP TABLE job_6;
CREATE INDEX job_open ON job (state, route, paused, rank, id)
  WHERE state = 'SUBMITTED' OR state = 'PENDING' OR state = 'RUNNING';
CREATE INDEX job_due ON job (due_at) WHERE due_at > 0;
CREATE INDEX job_pool ON job (pool, state, rank, id) WHERE pool <> 0 AND (state = 'PENDING' OR state = 'RUNNING');
CREATE INDEX job_quota ON job (quota, worker_count) WHERE quota <> 0 AND state = 'RUNNING';
CREATE INDEX job_parent ON job (parent) WHERE parent <> 0;
CREATE INDEX job_continues ON job (continues) WHERE continues <> 0;
CREATE INDEX job_mark ON job (mark, id) WHERE mark <> 0;

ALTER TABLE step RENAME TO step_6;
DROP INDEX step_flight;
DROP INDEX step_due;
DROP INDEX step_pool;
DROP INDEX step_mark;
DROP INDEX step_mark_at;

CREATE TABLE step (
  job          INTEGER NOT NULL,
  ord          INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  state        TEXT    NOT NULL CHECK (state = 'pending' OR state = 'enqueued' OR state = 'in_progress' OR state = 'complete' OR
    state = 'retryable_error' OR state = 'permanent_error' OR state = 'cancelled' OR
    state = 'skipped' OR state = 'resolved_manually'),
  seq          INTEGER NOT NULL,
  head         BLOB    NOT NULL,
  due_at       INTEGER NOT NULL,
  due_event    TEXT    NOT NULL,
  updated_at   INTEGER NOT NULL,
  mark         INTEGER NOT NULL,
  unmet        INTEGER NOT NULL,
  skipped      INTEGER NOT NULL,
  attempts     INTEGER NOT NULL,
  claims       INTEGER NOT NULL,
  losses       INTEGER NOT NULL,
  worker       INTEGER NOT NULL,
  route        INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  rank         INTEGER NOT NULL,
  pool         INTEGER NOT NULL,
  total        INTEGER NOT NULL,
  made         INTEGER NOT NULL,
  live         INTEGER NOT NULL,
  enqueued_at  INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  completed_at INTEGER NOT NULL,
  -- Whose it is: of its worker while in progress, else of whoever serves its route.
  place        INTEGER NOT NULL,
  input        TEXT,
  output       TEXT,
  error        TEXT,
  PRIMARY KEY (job, ord)
) STRICT, WITHOUT ROWID;
INSERT INTO step (job, ord, created_at, state, seq, head, due_at, due_event, updated_at, mark, unmet, skipped, attempts, claims, losses, worker, route,
  priority, rank, pool, total, made, live, enqueued_at, started_at, completed_at, place, input, output, error)
SELECT job, ord, created_at, state, seq, head, due_at, due_event, updated_at, mark, unmet, skipped, attempts, claims, losses, worker, route,
  priority, rank, pool, total, made, live, enqueued_at, started_at, completed_at, place, input, output, error
FROM step_6;
DROP TABLE step_6;
CREATE INDEX step_flight ON step (state, place, rank, job, ord)
  WHERE state = 'enqueued' OR state = 'in_progress';
CREATE INDEX step_due ON step (due_at) WHERE due_at > 0;
CREATE INDEX step_pool ON step (pool) WHERE pool <> 0 AND state = 'in_progress';
CREATE INDEX step_mark ON step (mark, job, priority DESC, ord) WHERE mark <> 0;

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
FROM trail a JOIN job j ON j.id = a.job
WHERE a.ord = 0;
