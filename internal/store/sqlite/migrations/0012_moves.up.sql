-- Moves by time. Most rows of the trail of jobs are written soon after their job was made, which
-- its key says: only the others are in an index. See store.Distant.
CREATE INDEX audit_distant ON audit (at) WHERE (at - ((job >> 32) + 1704067200) * 1000000 NOT BETWEEN -10000000 AND 10000000);
CREATE INDEX worker_audit_at ON worker_audit (at);
CREATE INDEX schedule_audit_at ON schedule_audit (at);
CREATE INDEX token_audit_at ON token_audit (at);
CREATE INDEX queue_pause_audit_at ON queue_pause_audit (at);
CREATE INDEX webhook_audit_at ON webhook_audit (at);
