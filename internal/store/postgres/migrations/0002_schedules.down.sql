-- Back to version 1. Lost is what only version 2 knows: schedules and their
-- trails, registered workflows, quotas, signals, the places in queues, pools, and
-- of each job its version, its parent's step, its schedule, how far its hooks
-- are, and that it was going to be COMPLETED. Blocked steps are open ones again.
-- A running job that had either is marked, for the evaluator to find anew how it
-- stands. Jobs, steps, workers and their trails stay.

drop table signal, quota, registered, schedule_audit, schedule;

drop index job_open, job_children, job_continued, job_pool, job_quota, step_ready, step_pool, step_owned;
alter table job rename column private to process;
alter table job add column private bool not null default false;
update job set private = process <> 0, open = open + blocked, ending = case ending when 'COMPLETED' then '' else ending end,
  mark = case when state = 'RUNNING' and (blocked <> 0 or ending = 'COMPLETED') then 1 else mark end
where process <> 0 or blocked <> 0 or ending = 'COMPLETED';
update step set mark = 0 where mark = 3;
alter table job
  drop column process, drop column version, drop column parent_step, drop column schedule, drop column rank,
  drop column pool, drop column quota, drop column hooks, drop column blocked,
  alter column private drop default,
  drop constraint job_ending_check,
  add constraint job_ending_check check (ending in ('', 'FAILED', 'CANCELED'));
alter table step drop column rank, drop column pool;

create index job_open on job (state, route, paused, priority desc, id) where state in ('SUBMITTED', 'PENDING', 'RUNNING');
create index step_ready on step (route, priority desc, job, ord) where state = 'enqueued';
