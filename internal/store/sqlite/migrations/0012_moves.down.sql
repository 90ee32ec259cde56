DROP INDEX audit_distant;
DROP INDEX worker_audit_at;
DROP INDEX schedule_audit_at;
DROP INDEX token_audit_at;
DROP INDEX queue_pause_audit_at;
DROP INDEX webhook_audit_at;
