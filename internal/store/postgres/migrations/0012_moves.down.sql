drop index audit_distant, worker_audit_at, schedule_audit_at, token_audit_at, queue_pause_audit_at, webhook_audit_at;
