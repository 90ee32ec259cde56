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

drop table feed_horizon;
drop table feed;

-- (end of the feed)


-- Tokens.
create table kept_token as select id, uuid, name, roles, workspaces, sum, expires_at,
  created_at, state::text, seq, head, due_at, due_event, updated_at from token;
create table kept_token_audit as select token, seq, state::text, event, reason, actor,
  request_id, metadata, at, hash, seals from token_audit;
drop table token_audit, token;
drop domain token_state;
-- (end of tokens)
