-- What the way down from the next version kept for the way up.
drop table if exists kept_entry;
drop table if exists kept_anchor;
drop table if exists kept_tree;

drop index step_mark, step_mark_at, job_mark_at;
alter table step drop column mark_at, drop column mark_tries;
alter table job drop column mark_at, drop column mark_tries;
create index step_mark on step (mark, job, ord) where mark <> 0;
create index job_mark on job (mark, id) where mark <> 0;
drop index step_due, job_due, worker_due, schedule_due;
create index step_due on step (due_at) where due_at > 0;
create index job_due on job (due_at) where due_at > 0;
create index worker_due on worker (due_at) where due_at > 0;
create index schedule_due on schedule (due_at) where due_at > 0;
