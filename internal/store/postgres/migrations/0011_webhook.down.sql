-- What an older program could not read is kept aside for the way up; the last deliveries are
-- dropped.
create table kept_webhook as select id, uuid, workspace, name, url, job, machines, events, begin, created_at, state::text, seq, head,
  due_at, due_event, updated_at, secret, former, former_until from webhook;
create table kept_webhook_audit as select webhook, seq, state::text, event, reason, actor,
  request_id, metadata, at, hash, seals from webhook_audit;
create table kept_webhook_place as select webhook, version, token, moved, failing_since, failures, error, gap_at, gap from webhook_place;
drop table webhook_delivery, webhook_place, webhook_audit, webhook;
drop domain webhook_state;
