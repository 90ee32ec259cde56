-- Schedules, registered workflows, quotas and signals; and ranks, pools and hooks
-- of jobs. Whose process runs a private job is now the key of a job.

alter table job rename column private to alone;
alter table job
  add column private     bigint   not null default 0,
  add column version     int      not null default 0,
  add column parent_step bigint   not null default 0,
  add column schedule    bigint   not null default 0,
  add column rank        bigint   not null default 0,
  add column pool        bigint   not null default 0,
  add column quota       bigint   not null default 0,
  add column hooks       smallint not null default 0,
  add column blocked     int      not null default 0,
  drop constraint job_ending_check,
  add constraint job_ending_check check (ending in ('', 'COMPLETED', 'FAILED', 'CANCELED'));
alter table step
  add column rank bigint not null default 0,
  add column pool bigint not null default 0;

-- What waits keeps its place: a priority is worth a minute.
drop index job_open, step_ready;
update job set private = case when alone then id else 0 end, rank = created_at - priority * 60000000::bigint
where alone or state in ('SUBMITTED', 'PENDING', 'RUNNING');
update step set rank = greatest(created_at, enqueued_at) - priority * 60000000::bigint
where state not in ('complete', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually');
alter table job drop column alone;

create index job_open on job (state, route, paused, rank, id) where state in ('SUBMITTED', 'PENDING', 'RUNNING');
create index job_children on job (parent, id) where parent <> 0;
create index job_continued on job (continues, id) where continues <> 0;
create index job_pool on job (pool, state, rank, id) where state in ('PENDING', 'RUNNING') and pool <> 0;
create index job_quota on job (quota) where state = 'RUNNING' and quota <> 0;
create index step_ready on step (route, rank, job, ord) where state = 'enqueued';
create index step_pool on step (pool) where state = 'in_progress' and pool <> 0;
create index step_owned on step (job) where state = 'in_progress' and worker = 0;

create table schedule (
  id         bigint primary key,
  uuid       uuid   not null,
  workspace  text   not null,
  name       text   not null,
  created_at bigint not null,
  state      text   not null check (state in ('active', 'paused', 'removed')),
  seq        bigint not null,
  head       bytea  not null,
  due_at     bigint not null,
  due_event  text   not null,
  updated_at bigint not null,
  workflow   text   not null,
  cron       text   not null,
  time_zone  text   not null,
  catch_up   bigint not null, -- nanoseconds
  overlap    text   not null,
  priority   int    not null,
  due        bigint not null,
  last_job   bigint not null,
  waiting    bigint not null,
  inputs     text
) with (fillfactor = 80);
create unique index schedule_name on schedule (workspace, name) where state <> 'removed';
create index schedule_due on schedule (due_at) where due_at > 0;

create table schedule_audit (
  schedule   bigint not null,
  seq        bigint not null,
  state      text   not null check (state in ('active', 'paused', 'removed')),
  event      text   not null,
  reason     text   not null,
  actor      text   not null,
  request_id text   not null,
  metadata   bytea,
  at         bigint not null,
  hash       bytea  not null,
  primary key (schedule, seq)
);

create table registered (
  workspace  text   not null,
  name       text   not null,
  version    int    not null,
  definition bigint not null,
  dir        text   not null,
  at         bigint not null,
  actor      text   not null,
  reason     text   not null,
  primary key (workspace, name, version)
);

create table quota (
  workspace text   not null,
  name      text   not null,
  slots     bigint not null,
  at        bigint not null,
  actor     text   not null,
  reason    text   not null,
  primary key (workspace, name)
);

create table signal (
  job   bigint not null,
  seq   bigint not null,
  name  text   not null,
  data  text,
  at    bigint not null,
  actor text   not null,
  taken bigint not null,
  primary key (job, seq)
);
create index signal_open on signal (job, seq) where taken = 0;
