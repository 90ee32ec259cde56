-- Processes.

create table node (
  id         bigint primary key,
  role       text   not null,
  name       text   not null,
  host       text   not null,
  pid        bigint not null,
  version    text   not null,
  started_at bigint not null,
  at         bigint not null,
  skew       bigint not null
) with (fillfactor = 50);

-- Retention.

-- What was removed, as package audit has it. While pending is not 0, trails of
-- removed jobs of that day, up to that key, are still to be dropped.
create table anchor (
  kind          text   not null,
  seq           bigint not null,
  day           bigint not null,
  count         bigint not null,
  entries       bigint not null,
  first_created bigint not null,
  last_created  bigint not null,
  first_ended   bigint not null,
  last_ended    bigint not null,
  last          bigint not null,
  digest        bytea  not null,
  at            bigint not null,
  actor         text   not null,
  reason        text   not null,
  hash          bytea  not null,
  pending       bigint not null,
  primary key (kind, seq)
);
create index anchor_pending on anchor (pending) where pending <> 0;

-- Logs get the partitions that the trail has, and are moved into them.
alter table log rename to log_2;
alter table log_2 rename constraint log_pkey to log_2_pkey;
create table log (
  job    bigint not null,
  ord    bigint not null,
  claim  bigint not null,
  stream text   not null,
  off    bigint not null,
  at     bigint not null,
  data   bytea  not null,
  primary key (job, ord, claim, stream, off)
) partition by range (job);
create table log_rest partition of log default;
do $$
declare p record;
begin
  for p in select c.relname, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'audit'::regclass and c.relname <> 'audit_rest'
  loop
    execute format('create table %I partition of log %s', replace(p.relname, 'audit_', 'log_'), p.bound);
  end loop;
end $$;
insert into log select * from log_2;
drop table log_2;

-- Speed.

create index worker_living on worker (id) where state in ('IDLE', 'RUNNING', 'PAUSED');
create index step_stop on step (worker, job, ord) where state = 'in_progress' and due_event = 'cancel';
