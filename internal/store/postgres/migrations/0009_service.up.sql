-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.
create domain token_state as text constraint token_state_check check (value in ('active', 'revoked', 'expired'));
create table token (
  id         bigint      primary key,
  uuid       uuid        not null,
  name       text        not null,
  roles      text        not null, -- JSON
  workspaces text        not null, -- JSON; null: all
  sum        bytea       not null, -- the SHA-256 of the secret
  expires_at bigint      not null,
  created_at bigint      not null,
  state      token_state not null,
  seq        bigint      not null,
  head       bytea       not null,
  due_at     bigint      not null,
  due_event  text        not null,
  updated_at bigint      not null
);
create unique index token_name on token (name) where state = 'active';
create index token_due on token (due_at, id) where due_at > 0;
create table token_audit (
  token      bigint      not null,
  seq        bigint      not null,
  state      token_state not null,
  event      text        not null,
  reason     text        not null,
  actor      text        not null,
  request_id text        not null,
  metadata   bytea,
  at         bigint      not null,
  hash       bytea       not null,
  seals      bytea,
  primary key (token, seq)
);
create table if not exists kept_token (id bigint, uuid uuid, name text, roles text, workspaces text, sum bytea, expires_at bigint,
  created_at bigint, state text, seq bigint, head bytea, due_at bigint, due_event text, updated_at bigint);
create table if not exists kept_token_audit (token bigint, seq bigint, state text, event text, reason text, actor text,
  request_id text, metadata bytea, at bigint, hash bytea, seals bytea);
insert into token select * from kept_token;
insert into token_audit select * from kept_token_audit;
drop table kept_token, kept_token_audit;
-- (end of tokens)


-- The feed.

-- A row for each commit that wrote to a trail: rows names what it wrote. A user's transaction
-- that writes more than once has a row for each time.
create table feed (
  xid xid8 not null default pg_current_xact_id(),
  n smallint not null default 0,
  at bigint not null,
  rows bytea not null,
  primary key (xid, n)
);

-- The oldest transaction that was not over at a time.
create table feed_horizon (
  at bigint primary key,
  oldest xid8 not null
);

-- (end of the feed)


-- Workers of other machines.

alter table worker add column silence bigint not null default 0; -- ns; 0: its process holds a lock

-- The conversation with each worker that reaches the database through a server.
create table remote (
  worker bigint primary key,
  turn   bigint not null,
  tries  bigint not null
) with (fillfactor = 50);

-- (end of workers)


-- Reservations of slots.

create table reservation (
  uuid       bytea  primary key,
  workspace  text   not null,
  depth      bigint not null,
  slots      bigint not null check (slots > 0),
  pool       bigint not null,
  expires_at bigint not null,
  actor      text   not null,
  reason     text   not null
);
create index reservation_pool on reservation (pool, expires_at);

-- (end of reservations)
