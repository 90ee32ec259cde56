-- What the way down from version 8 kept for the way up does not fit any more.
drop table if exists kept_entry;
drop table if exists kept_anchor;
drop table if exists kept_tree;
drop table if exists kept_token, kept_token_audit;
drop table if exists kept_queue_pause, kept_queue_pause_audit;
drop table if exists kept_webhook, kept_webhook_audit, kept_webhook_place;

drop index step_ready, step_pool, step_stop, job_open, job_pool, job_quota;
drop table running;
alter table step drop column line, set (fillfactor = 80);
alter table job drop column line, set (fillfactor = 80);
create index step_ready on step (route, rank, job, ord) where state = 'enqueued';
create index step_pool on step (pool) where state = 'in_progress' and pool <> 0;
create index step_held on step (worker, due_event) where state = 'in_progress';
create index job_open on job (state, route, paused, rank, id) where state in ('SUBMITTED', 'PENDING', 'RUNNING');
create index job_pool on job (pool, state, rank, id) where state in ('PENDING', 'RUNNING') and pool <> 0;
create index job_quota on job (quota) where state = 'RUNNING' and quota <> 0;
alter table audit rename column further to more;
