-- In the reverse order of the way up. What an older program could not read is kept aside
-- for the way up; what can be lost is dropped.

-- Reservations of slots.

drop table reservation;

-- (end of reservations)


-- Workers of other machines.

-- An older program takes them for dead, and they register again after the way up.
drop table remote;
alter table worker drop column silence;

-- (end of workers)


-- The feed.

-- (end of the feed)


-- Tokens.

-- (end of tokens)
