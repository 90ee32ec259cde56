drop view idempotency_keys, job_state_transitions, jobs, worker_state_transitions, workers;
drop table hold, beat, log, refusal, idempotency, audit, step, job, definition, worker_audit, worker;
