-- Everything goes, trails included.

DROP VIEW idempotency_keys;
DROP VIEW job_state_transitions;
DROP VIEW jobs;
DROP VIEW worker_state_transitions;
DROP VIEW workers;
DROP TABLE refusal;
DROP TABLE idempotency;
DROP TABLE audit;
DROP TABLE step;
DROP TABLE job;
DROP TABLE definition;
DROP TABLE worker_audit;
DROP TABLE worker;
