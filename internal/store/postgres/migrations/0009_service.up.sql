-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.

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

-- (end of workers)
