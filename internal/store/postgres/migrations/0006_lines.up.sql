-- What a move changes of most jobs and steps is in no index any more, so that the
-- server writes the row into its page again and touches no index: states are not
-- indexed, but the line that a record stands in while it waits to be found, and of
-- what runs there is a list.

-- Steps before jobs, as everywhere.
alter table step add column line smallint not null default 0, set (fillfactor = 50); -- the row and its next version
alter table job add column line smallint not null default 0, set (fillfactor = 50);

-- Every job that is RUNNING is in a row of these, and in one of each worker that
-- holds a step of it. A row goes when all its jobs have ended, if the process that
-- made it has seen it; at due_at it makes room for one of the jobs that still run,
-- which is due after twice the wait.
create table running (
  id     bigint   primary key default (random() * 9e18)::bigint,
  worker bigint   not null, -- 0: of none
  jobs   bigint[] not null,
  wait   bigint   not null default 10000000,
  due_at bigint   not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint + 10000000
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
insert into running (worker, jobs)
select case when worker > 0 then worker else 0 end, array_agg(distinct job) from step where state = 'in_progress' group by 1;
insert into running (worker, jobs)
select 0, array_agg(id) from job where state = 'RUNNING' having count(*) > 0;

update step set line = case state when 'enqueued' then 1 else 2 end
where state = 'enqueued' or state = 'in_progress' and (worker = 0 or pool <> 0);
update job set line = case state when 'PENDING' then 1 when 'SUBMITTED' then 2 else 3 end
where state in ('SUBMITTED', 'PENDING') or state = 'RUNNING' and (pool <> 0 or quota <> 0);

drop index step_ready, step_pool, step_held, job_open, job_pool, job_quota;
create index step_ready on step (route, rank, job, ord) where line = 1;
create index step_pool on step (pool, worker) where line = 2;
create index step_stop on step (worker, job, ord) where due_event = 'cancel';
create index job_open on job (line, route, paused, rank, id) where line <> 0;
create index job_pool on job (pool, line, rank, id) where line <> 0 and pool <> 0;
create index job_quota on job (quota) where line = 3 and quota <> 0;

-- A pawl that knows nothing of lines, and has not yet seen that this was done under it,
-- must not write: nobody would find what it makes ready. Each of its moves fails here.
alter table audit rename column more to further;
