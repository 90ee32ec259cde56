-- In the reverse order of the way up. What an older program could not read is kept aside
-- for the way up; what can be lost is dropped.

-- Workers of other machines.

-- (end of workers)


-- The feed.

DROP TABLE feed_epoch;
DROP TABLE feed;

-- (end of the feed)


-- Tokens.

-- (end of tokens)
