-- A mark is a time: when the evaluator looks, the oldest first. One that it could do
-- nothing about is looked at again later and later.

-- Steps before jobs, as everywhere.
alter table step
  add column mark_at    bigint  not null default 0, -- 0 unless marked 1
  add column mark_tries integer not null default 0; -- in vain so far
alter table job
  add column mark_at    bigint  not null default 0,
  add column mark_tries integer not null default 0;
update step set mark_at = updated_at where mark = 1;
update job set mark_at = updated_at where mark = 1;

drop index step_mark, job_mark;
create index step_mark on step (mark, job, mark_at, ord) where mark <> 0; -- of a job
create index step_mark_at on step (mark_at, job, ord) where mark_at > 0;  -- of all
create index job_mark_at on job (mark_at, id) where mark_at > 0;

-- A round of looks at deadlines goes on behind the last one, whatever has the same time.
drop index step_due, job_due, worker_due, schedule_due;
create index step_due on step (due_at, job, ord) where due_at > 0;
create index job_due on job (due_at, id) where due_at > 0;
create index worker_due on worker (due_at, id) where due_at > 0;
create index schedule_due on schedule (due_at, id) where due_at > 0;
