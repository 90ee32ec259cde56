-- States, endings and depths become domains: the server parses the CHECK of a
-- table anew in every statement that writes it, and keeps that of a domain.
--
-- No table is written anew, since the domains get their checks last; but each is
-- read once, and partial indexes on states are built anew, while nobody else can
-- use it: a minute or so for a hundred million entries of the trail.

create domain job_state as text;
create domain job_ending as text;
create domain job_depth as int;
create domain step_state as text;
create domain worker_state as text;
create domain schedule_state as text;
create domain entry_state as text; -- of jobs and of steps

-- Views keep their grants, and those that are built on them, while they do without
-- the columns that change.
create or replace view workers as
select null::text as id, null::text as workspace_id, null::text as status,
  null::timestamptz as created_at, null::timestamptz as updated_at, null::json as metadata;
create or replace view worker_state_transitions as
select null::bigint as id, null::text as worker_id, null::text as from_state, null::text as to_state,
  null::text as reason, null::timestamptz as "timestamp";
create or replace view jobs as
select null::text as id, null::text as parent_job_id, null::int as depth, null::text as status, null::int as worker_count,
  null::timestamptz as created_at, null::timestamptz as started_at, null::timestamptz as completed_at, null::text as task_description;
create or replace view job_state_transitions as
select null::bigint as id, null::text as job_id, null::text as from_state, null::text as to_state,
  null::text as reason, null::timestamptz as "timestamp";

alter table worker drop constraint worker_state_check, alter column state type worker_state;
alter table worker_audit drop constraint worker_audit_state_check, alter column state type worker_state;
alter table job drop constraint job_state_check, drop constraint job_ending_check, drop constraint job_depth_check,
  alter column state type job_state, alter column ending type job_ending, alter column depth type job_depth;
alter table step drop constraint step_state_check, alter column state type step_state;
alter table audit drop constraint audit_check, alter column state type entry_state;
alter table schedule drop constraint schedule_state_check, alter column state type schedule_state;
alter table schedule_audit drop constraint schedule_audit_state_check, alter column state type schedule_state;

alter domain job_state add constraint job_state_check check (value in ('SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED'));
alter domain job_ending add constraint job_ending_check check (value in ('', 'COMPLETED', 'FAILED', 'CANCELED'));
alter domain job_depth add constraint job_depth_check check (value between 0 and 5);
alter domain step_state add constraint step_state_check check (value in ('pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually'));
alter domain worker_state add constraint worker_state_check check (value in ('IDLE', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'TERMINATED'));
alter domain schedule_state add constraint schedule_state_check check (value in ('active', 'paused', 'removed'));
alter domain entry_state add constraint entry_state_check check (value in (
  'SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED',
  'pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually'));

create or replace view workers as
select 'w_' || replace(w.uuid::text, '-', '') as id, w.workspace as workspace_id, w.state::text as status,
  to_timestamp(w.created_at / 1000000.0) as created_at, to_timestamp(w.updated_at / 1000000.0) as updated_at,
  case when left(w.metadata, 1) <> chr(1) then w.metadata::json end as metadata
from worker w;

create or replace view worker_state_transitions as
select row_number() over (order by a.at, a.worker, a.seq) as id,
  'w_' || replace(w.uuid::text, '-', '') as worker_id,
  lag(a.state::text) over (partition by a.worker order by a.seq) as from_state, a.state::text as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from worker_audit a join worker w on w.id = a.worker;

create or replace view jobs as
select 'j_' || replace(j.uuid::text, '-', '') as id,
  'j_' || replace(p.uuid::text, '-', '') as parent_job_id, j.depth::int as depth, j.state::text as status, j.worker_count,
  to_timestamp(j.created_at / 1000000.0) as created_at,
  to_timestamp(nullif(j.started_at, 0) / 1000000.0) as started_at,
  to_timestamp(nullif(j.completed_at, 0) / 1000000.0) as completed_at,
  j.description as task_description
from job j left join job p on p.id = nullif(j.parent, 0);

create or replace view job_state_transitions as
select row_number() over (order by a.at, a.job, a.seq) as id,
  'j_' || replace(j.uuid::text, '-', '') as job_id,
  lag(a.state::text) over (partition by a.job order by a.seq) as from_state, a.state::text as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from audit a join job j on j.id = a.job
where a.ord = 0;
