-- rolling
-- The order of columns stays.
create index if not exists step_pool on step (pool, worker) where line = 2;
create index if not exists step_stop on step (worker, job, ord) where due_event = 'cancel';
drop index step_slots, step_cancel;
