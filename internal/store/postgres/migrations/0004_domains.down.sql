-- Back to version 3: the tables have their checks again. No table is written
-- anew, but each is read once.

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

alter table worker alter column state type text,
  add constraint worker_state_check check (state in ('IDLE', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'TERMINATED'));
alter table worker_audit alter column state type text,
  add constraint worker_audit_state_check check (state in ('IDLE', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'TERMINATED'));
alter table job alter column state type text, alter column ending type text, alter column depth type int,
  add constraint job_state_check check (state in ('SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED')),
  add constraint job_ending_check check (ending in ('', 'COMPLETED', 'FAILED', 'CANCELED')),
  add constraint job_depth_check check (depth between 0 and 5);
alter table step alter column state type text,
  add constraint step_state_check check (state in ('pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually'));
alter table audit alter column state type text,
  add constraint audit_check check (case when ord = 0
    then state in ('SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED')
    else state in ('pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually') end);
alter table schedule alter column state type text,
  add constraint schedule_state_check check (state in ('active', 'paused', 'removed'));
alter table schedule_audit alter column state type text,
  add constraint schedule_audit_state_check check (state in ('active', 'paused', 'removed'));

drop domain job_state, job_ending, job_depth, step_state, worker_state, schedule_state, entry_state;

create or replace view workers as
select 'w_' || replace(w.uuid::text, '-', '') as id, w.workspace as workspace_id, w.state as status,
  to_timestamp(w.created_at / 1000000.0) as created_at, to_timestamp(w.updated_at / 1000000.0) as updated_at,
  case when left(w.metadata, 1) <> chr(1) then w.metadata::json end as metadata
from worker w;

create or replace view worker_state_transitions as
select row_number() over (order by a.at, a.worker, a.seq) as id,
  'w_' || replace(w.uuid::text, '-', '') as worker_id,
  lag(a.state) over (partition by a.worker order by a.seq) as from_state, a.state as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from worker_audit a join worker w on w.id = a.worker;

create or replace view jobs as
select 'j_' || replace(j.uuid::text, '-', '') as id,
  'j_' || replace(p.uuid::text, '-', '') as parent_job_id, j.depth, j.state as status, j.worker_count,
  to_timestamp(j.created_at / 1000000.0) as created_at,
  to_timestamp(nullif(j.started_at, 0) / 1000000.0) as started_at,
  to_timestamp(nullif(j.completed_at, 0) / 1000000.0) as completed_at,
  j.description as task_description
from job j left join job p on p.id = nullif(j.parent, 0);

create or replace view job_state_transitions as
select row_number() over (order by a.at, a.job, a.seq) as id,
  'j_' || replace(j.uuid::text, '-', '') as job_id,
  lag(a.state) over (partition by a.job order by a.seq) as from_state, a.state as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from audit a join job j on j.id = a.job
where a.ord = 0;
