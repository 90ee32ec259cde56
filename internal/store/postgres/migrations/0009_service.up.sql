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
