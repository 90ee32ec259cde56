drop index step_held;
create index step_held on step (worker) where state = 'in_progress' and worker <> 0;
create index step_stop on step (worker, job, ord) where state = 'in_progress' and due_event = 'cancel';
create index step_owned on step (job) where state = 'in_progress' and worker = 0;

-- Each entry gets a row of its own again.
insert into audit (job, ord, seq, state, event, reason, actor, request_id, metadata, at, hash)
select a.job, (e ->> 0)::bigint, (e ->> 1)::bigint, e ->> 2, e ->> 3, e ->> 4, e ->> 5, e ->> 6,
  convert_to(e ->> 7, 'UTF8'), (e ->> 8)::bigint, decode(e ->> 9, 'hex')
from audit a cross join lateral json_array_elements(a.more::json) e
where a.more is not null;

create or replace view job_state_transitions as
select null::bigint as id, null::text as job_id, null::text as from_state, null::text as to_state,
  null::text as reason, null::timestamptz as "timestamp";
drop view trail;

create domain entry_state as text;
alter table audit drop column more, alter column state type entry_state;
alter domain entry_state add constraint entry_state_check check (value in (
  'SUBMITTED', 'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED',
  'pending', 'enqueued', 'in_progress', 'complete', 'retryable_error', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually'));

create or replace view job_state_transitions as
select row_number() over (order by a.at, a.job, a.seq) as id,
  'j_' || replace(j.uuid::text, '-', '') as job_id,
  lag(a.state::text) over (partition by a.job order by a.seq) as from_state, a.state::text as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from audit a join job j on j.id = a.job
where a.ord = 0;
