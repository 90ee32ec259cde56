-- Pauses of queues.
create domain queue_pause_state as text constraint queue_pause_state_check check (value in ('paused', 'resumed'));
create table queue_pause (
  id         bigint      primary key,
  uuid       uuid        not null,
  workspace  text        not null,
  queue      text        not null,
  created_at bigint      not null,
  state      queue_pause_state not null,
  seq        bigint      not null,
  head       bytea       not null,
  due_at     bigint      not null,
  due_event  text        not null,
  updated_at bigint      not null
);
create unique index queue_pause_queue on queue_pause (workspace, queue) where state = 'paused';
create table queue_pause_audit (
  queue_pause bigint     not null,
  seq        bigint      not null,
  state      queue_pause_state not null,
  event      text        not null,
  reason     text        not null,
  actor      text        not null,
  request_id text        not null,
  metadata   bytea,
  at         bigint      not null,
  hash       bytea       not null,
  seals      bytea,
  primary key (queue_pause, seq)
);
create table if not exists kept_queue_pause (id bigint, uuid uuid, workspace text, queue text,
  created_at bigint, state text, seq bigint, head bytea, due_at bigint, due_event text, updated_at bigint);
create table if not exists kept_queue_pause_audit (queue_pause bigint, seq bigint, state text, event text, reason text, actor text,
  request_id text, metadata bytea, at bigint, hash bytea, seals bytea);
insert into queue_pause select * from kept_queue_pause;
insert into queue_pause_audit select * from kept_queue_pause_audit;
drop table kept_queue_pause, kept_queue_pause_audit;

-- Whether jobs were submitted as children of a job.
alter table job add column children bool not null default false;
update job set children = true
where id in (select parent from job where parent <> 0 and parent_step = 0 and state in ('SUBMITTED', 'PENDING', 'RUNNING'));
