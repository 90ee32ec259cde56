-- A row of the trail of jobs and steps may hold further entries, of the same commit
-- and the same job, in a JSON list. The view trail has them all, one by one. States
-- of entries are in such lists, too: that they are legal is for audit verify to say.

-- Steps before the trail, as commits lock them, or the two wait for each other.
--
-- Who holds what, who is to stop what, and what nobody holds, in one index: each one
-- is dear for every statement that writes steps. What is to stop is by itself in it: a
-- beat must not look through all that has ended while somebody holds an old snapshot.
drop index step_held;
drop index step_stop;
drop index step_owned;
create index step_held on step (worker, due_event) where state = 'in_progress';

-- Views keep their grants while they do without the column that changes.
create or replace view job_state_transitions as
select null::bigint as id, null::text as job_id, null::text as from_state, null::text as to_state,
  null::text as reason, null::timestamptz as "timestamp";

alter table audit add column more text, alter column state type text;
drop domain entry_state;

create view trail as
select job, ord, seq, state, event, reason, actor, request_id, metadata, at, hash
from audit
union all
select a.job, (e ->> 0)::bigint, (e ->> 1)::bigint, e ->> 2, e ->> 3, e ->> 4, e ->> 5, e ->> 6,
  convert_to(e ->> 7, 'UTF8'), (e ->> 8)::bigint, decode(e ->> 9, 'hex')
from audit a cross join lateral json_array_elements(a.more::json) e
where a.more is not null;

create or replace view job_state_transitions as
select row_number() over (order by a.at, a.job, a.seq) as id,
  'j_' || replace(j.uuid::text, '-', '') as job_id,
  lag(a.state) over (partition by a.job order by a.seq) as from_state, a.state as to_state,
  a.reason, to_timestamp(a.at / 1000000.0) as "timestamp"
from trail a join job j on j.id = a.job
where a.ord = 0;
