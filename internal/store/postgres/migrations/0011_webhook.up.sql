-- Webhooks.
create domain webhook_state as text constraint webhook_state_check check (value in ('active', 'paused', 'disabled', 'deleted'));
create table webhook (
  id           bigint        primary key,
  uuid         uuid          not null,
  workspace    text          not null, -- empty: all
  name         text          not null,
  url          text          not null,
  job          text          not null,
  machines     text          not null, -- JSON; null: all
  events       text          not null, -- JSON; null: all
  begin        text          not null, -- a place in the feed
  created_at   bigint        not null,
  state        webhook_state not null,
  seq          bigint        not null,
  head         bytea         not null,
  due_at       bigint        not null,
  due_event    text          not null,
  updated_at   bigint        not null,
  secret       bytea         not null, -- signs what is sent
  former       bytea         not null, -- signs it, too, until former_until
  former_until bigint        not null
);
create unique index webhook_name on webhook (workspace, name) where state <> 'deleted';
create table webhook_audit (
  webhook    bigint        not null,
  seq        bigint        not null,
  state      webhook_state not null,
  event      text          not null,
  reason     text          not null,
  actor      text          not null,
  request_id text          not null,
  metadata   bytea,
  at         bigint        not null,
  hash       bytea         not null,
  seals      bytea,
  primary key (webhook, seq)
);

-- How far a webhook has come. No trail has it.
create table webhook_place (
  webhook       bigint primary key,
  version       bigint not null,
  token         text   not null, -- of the feed
  moved         bigint not null, -- how often the token has moved
  failing_since bigint not null,
  failures      bigint not null,
  error         text   not null,
  gap_at        bigint not null,
  gap           text   not null
);

-- What it has sent last.
create table webhook_delivery (
  id        bigint  generated always as identity primary key,
  webhook   bigint  not null,
  moved     bigint  not null, -- of the place; -1: somebody asked for it
  message   text    not null,
  type      text    not null,
  attempt   bigint  not null,
  at        bigint  not null,
  duration  bigint  not null, -- us
  status    bigint  not null,
  delivered boolean not null,
  error     text    not null,
  body      bytea   not null
);
create index webhook_deliveries on webhook_delivery (webhook, id);

create table if not exists kept_webhook (id bigint, uuid uuid, workspace text, name text, url text, job text, machines text, events text,
  begin text, created_at bigint, state text, seq bigint, head bytea, due_at bigint, due_event text, updated_at bigint,
  secret bytea, former bytea, former_until bigint);
create table if not exists kept_webhook_audit (webhook bigint, seq bigint, state text, event text, reason text, actor text,
  request_id text, metadata bytea, at bigint, hash bytea, seals bytea);
create table if not exists kept_webhook_place (webhook bigint, version bigint, token text, moved bigint, failing_since bigint,
  failures bigint, error text, gap_at bigint, gap text);
insert into webhook select * from kept_webhook;
insert into webhook_audit select * from kept_webhook_audit;
insert into webhook_place select * from kept_webhook_place;
drop table kept_webhook, kept_webhook_audit, kept_webhook_place;
