-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.

-- (end of tokens)


-- The feed.

-- A row for each commit that wrote to a trail: rows names what it wrote. The newest row is
-- never deleted, so that pos only rises.
CREATE TABLE feed (
  pos INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  rows BLOB NOT NULL
) STRICT;

-- What distinguishes this feed from that of another file, and of this one before.
CREATE TABLE feed_epoch (epoch INTEGER NOT NULL) STRICT;
INSERT INTO feed_epoch VALUES (random());

-- (end of the feed)


-- Workers of other machines.

-- (end of workers)
