-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.

-- (end of tokens)


-- The feed.

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
