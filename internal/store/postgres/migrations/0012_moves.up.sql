-- Moves by time. Most rows of the trail of jobs are written soon after their job was made, which
-- its key says: only the others are in an index. See store.Distant.
create index audit_distant on audit (at) where (at - ((job >> 32) + 1704067200) * 1000000 not between -10000000 and 10000000);
create index worker_audit_at on worker_audit (at);
create index schedule_audit_at on schedule_audit (at);
create index token_audit_at on token_audit (at);
create index queue_pause_audit_at on queue_pause_audit (at);
create index webhook_audit_at on webhook_audit (at);
