-- Keys are those of pawl.ID.Key; times are microseconds since the Unix epoch,
-- 0 is none. Only what is in flight is indexed beside the primary keys.

create table worker (
  id          bigint primary key,
  uuid        uuid   not null,
  workspace   text   not null,
  name        text   not null,
  host        text   not null,
  pid         bigint not null,
  capacity    int    not null,
  routes      text   not null, -- a JSON list
  handlers    text   not null, -- a JSON list
  created_at  bigint not null,
  state       text   not null check (state in ('IDLE', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'TERMINATED')),
  seq         bigint not null,
  head        bytea  not null,
  due_at      bigint not null,
  due_event   text   not null,
  updated_at  bigint not null,
  metadata    text
) with (fillfactor = 80);
create index worker_due on worker (due_at) where due_at > 0;

create table worker_audit (
  worker     bigint not null,
  seq        bigint not null,
  state      text   not null check (state in ('IDLE', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'TERMINATED')),
  event      text   not null,
  reason     text   not null,
  actor      text   not null,
  request_id text   not null,
  metadata   bytea,
  at         bigint not null,
  hash       bytea  not null,
  primary key (worker, seq)
);

create table definition (
  id         bigint primary key,
  hash       bytea  not null,
  name       text   not null,
  source     bytea  not null,
  created_at bigint not null
);

create table job (
  id           bigint primary key,
  uuid         uuid   not null,
  workspace    text   not null,
  definition   bigint not null,
  workflow     text   not null,
  description  text   not null,
  parent       bigint not null,
  continues    bigint not null,
  depth        int    not null check (depth between 0 and 5),
  worker_count int    not null,
  private      bool   not null,
  created_at   bigint not null,
  state        text   not null check (state in ('SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED')),
  seq          bigint not null,
  head         bytea  not null,
  due_at       bigint not null,
  due_event    text   not null,
  updated_at   bigint not null,
  route        bigint not null,
  priority     int    not null,
  paused       bool   not null,
  mark         smallint not null,
  ending       text   not null check (ending in ('', 'FAILED', 'CANCELED')),
  open         int    not null,
  active       int    not null,
  started_at   bigint not null,
  completed_at bigint not null,
  inputs       text,
  output       text,
  error        text,
  metadata     text
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index job_open on job (state, route, paused, priority desc, id) where state in ('SUBMITTED', 'PENDING', 'RUNNING');
create index job_mark on job (mark, id) where mark <> 0;
create index job_due on job (due_at) where due_at > 0;

create table step (
  job          bigint not null,
  ord          bigint not null,
  created_at   bigint not null,
  state        text   not null check (state in ('pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually')),
  seq          bigint not null,
  head         bytea  not null,
  due_at       bigint not null,
  due_event    text   not null,
  updated_at   bigint not null,
  mark         smallint not null,
  unmet        int    not null,
  skipped      bool   not null,
  attempts     int    not null,
  claims       int    not null,
  losses       int    not null,
  worker       bigint not null,
  route        bigint not null,
  priority     int    not null,
  total        int    not null,
  made         int    not null,
  live         int    not null,
  enqueued_at  bigint not null,
  started_at   bigint not null,
  completed_at bigint not null,
  input        text,
  output       text,
  error        text,
  primary key (job, ord)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index step_ready on step (route, priority desc, job, ord) where state = 'enqueued';
create index step_held on step (worker) where state = 'in_progress' and worker <> 0;
create index step_mark on step (mark, job, ord) where mark <> 0;
create index step_due on step (due_at) where due_at > 0;

-- The trail of jobs (ord 0) and steps. Its partitions hold the jobs of one day.
create table audit (
  job        bigint not null,
  ord        bigint not null,
  seq        bigint not null,
  state      text   not null check (case when ord = 0
    then state in ('SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED')
    else state in ('pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually') end),
  event      text   not null,
  reason     text   not null,
  actor      text   not null,
  request_id text   not null,
  metadata   bytea,
  at         bigint not null,
  hash       bytea  not null,
  primary key (job, ord, seq)
) partition by range (job);
create table audit_rest partition of audit default;

create table idempotency (
  workspace    text   not null,
  key          text   not null,
  endpoint     text   not null,
  request_hash bytea  not null,
  status       int    not null,
  body         bytea,
  created_at   bigint not null,
  expires_at   bigint not null,
  primary key (workspace, key)
);
create index idempotency_expiry on idempotency (expires_at);

create table refusal (
  id    bigint generated always as identity primary key,
  job   bigint not null,
  ord   bigint not null,
  at    bigint not null,
  claim bigint not null,
  event text   not null,
  actor text   not null,
  why   text   not null,
  data  text
);
create index refusal_job on refusal (job, at);

create table log (
  job    bigint not null,
  ord    bigint not null,
  claim  bigint not null,
  stream text   not null,
  off    bigint not null,
  at     bigint not null,
  data   bytea  not null,
  primary key (job, ord, claim, stream, off)
);

create table beat (
  worker bigint primary key,
  at     bigint not null
) with (fillfactor = 50);

create table hold (
  name text   primary key,
  note bytea  not null,
  pid  int    not null,
  at   bigint not null
);

-- What people and reports read.

create view workers as
select 'w_' || replace(w.uuid::text, '-', '') as id, w.workspace as workspace_id, w.state as status,
  to_timestamp(w.created_at / 1000000.0) as created_at, to_timestamp(w.updated_at / 1000000.0) as updated_at,
  case when left(w.metadata, 1) <> chr(1) then w.metadata::json end as metadata
from worker w;

create view worker_state_transitions as
select row_number() over (order by a.at, a.worker, a.seq) as id,
  'w_' || replace(w.uuid::text, '-', '') as worker_id,
  lag(a.state) over (partition by a.worker order by a.seq) as from_state, a.state as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from worker_audit a join worker w on w.id = a.worker;

create view jobs as
select 'j_' || replace(j.uuid::text, '-', '') as id,
  'j_' || replace(p.uuid::text, '-', '') as parent_job_id, j.depth, j.state as status, j.worker_count,
  to_timestamp(j.created_at / 1000000.0) as created_at,
  to_timestamp(nullif(j.started_at, 0) / 1000000.0) as started_at,
  to_timestamp(nullif(j.completed_at, 0) / 1000000.0) as completed_at,
  j.description as task_description
from job j left join job p on p.id = nullif(j.parent, 0);

create view job_state_transitions as
select row_number() over (order by a.at, a.job, a.seq) as id,
  'j_' || replace(j.uuid::text, '-', '') as job_id,
  lag(a.state) over (partition by a.job order by a.seq) as from_state, a.state as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from audit a join job j on j.id = a.job
where a.ord = 0;

create view idempotency_keys as
select key as request_id, workspace as workspace_id, endpoint, encode(request_hash, 'hex') as request_hash,
  status as response_status, convert_from(body, 'UTF8') as response_body,
  to_timestamp(created_at / 1000000.0) as created_at, to_timestamp(expires_at / 1000000.0) as expires_at
from idempotency;
