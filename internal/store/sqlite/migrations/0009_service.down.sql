-- In the reverse order of the way up. What an older program could not read is kept aside
-- for the way up; what can be lost is dropped.

-- Reservations of slots.

DROP TABLE reservation;

-- (end of reservations)


-- Workers of other machines.

-- (end of workers)


-- The feed.

-- (end of the feed)


-- Tokens.

-- (end of tokens)
