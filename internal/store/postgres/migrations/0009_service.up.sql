-- What the service needs: tokens, the feed of events, and workers that reach the database
-- through a server.

-- Tokens.

-- (end of tokens)


-- The feed.

-- (end of the feed)


-- Workers of other machines.

-- (end of workers)
