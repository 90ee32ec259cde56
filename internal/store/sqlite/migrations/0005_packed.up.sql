-- A row of the trail of jobs and steps may hold further entries, of the same commit
-- and the same job, in a JSON list. The view trail has them all, one by one, with
-- their hashes in hexadecimal. The views ask for no newer SQLite than the tables do.

ALTER TABLE audit ADD COLUMN more TEXT;

CREATE VIEW trail AS
SELECT job, ord, seq, state, event, reason, actor, request_id, metadata, at, lower(hex(hash)) AS hash
FROM audit
UNION ALL
SELECT a.job, json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]'), json_extract(e.value, '$[2]'), json_extract(e.value, '$[3]'),
  json_extract(e.value, '$[4]'), json_extract(e.value, '$[5]'), json_extract(e.value, '$[6]'), json_extract(e.value, '$[7]'),
  json_extract(e.value, '$[8]'), json_extract(e.value, '$[9]')
FROM audit a, json_each(a.more) e
WHERE a.more IS NOT NULL;

DROP VIEW job_state_transitions;
CREATE VIEW job_state_transitions AS
SELECT row_number() OVER (ORDER BY a.at, a.job, a.seq) AS id,
  'j_' || lower(hex(j.uuid)) AS job_id,
  lag(a.state) OVER (PARTITION BY a.job ORDER BY a.seq) AS from_state, a.state AS to_state,
  a.reason,
  strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch') || printf('.%06dZ', a.at % 1000000) AS timestamp
FROM trail a JOIN job j ON j.id = a.job
WHERE a.ord = 0;
