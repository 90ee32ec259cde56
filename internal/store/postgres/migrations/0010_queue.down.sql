-- An older program knows no pauses of queues: they are kept aside for the way up.
create table kept_queue_pause as select id, uuid, workspace, queue,
  created_at, state::text, seq, head, due_at, due_event, updated_at from queue_pause;
create table kept_queue_pause_audit as select queue_pause, seq, state::text, event, reason, actor,
  request_id, metadata, at, hash, seals from queue_pause_audit;
drop table queue_pause_audit, queue_pause;
drop domain queue_pause_state;

alter table job drop column children;
