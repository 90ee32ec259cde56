-- The rows that a newer program has written stay, without what they seal, which is kept
-- aside for the way up: an older program finds that their hashes do not fit. What goes on
-- under it is not counted out of its job.

create table kept_entry (kind text, a bigint, b bigint, seq bigint, seals bytea, further text, primary key (kind, a, b, seq));
create table kept_tree (job bigint, ord bigint, tree bytea, folded bigint, primary key (job, ord));
insert into kept_tree select job, ord, tree, folded from step where tree is not null or folded <> 0;
insert into kept_tree select id, 0, tree, 0 from job where tree is not null;
insert into kept_entry select 'job', job, ord, seq, seals, further from audit where seals is not null or further is not null;
insert into kept_entry select 'worker', worker, 0, seq, seals, null from worker_audit where seals is not null;
insert into kept_entry select 'schedule', schedule, 0, seq, seals, null from schedule_audit where seals is not null;

-- Entries that stand in lists lose what an older program does not read.
update audit a set further = (
  select '[' || string_agg(case json_array_length(e.entry) when 10 then e.entry::text
    else regexp_replace(e.entry::text, ',("[A-Za-z0-9+/]*"|[0-9])\]$', ']') end, ',' order by e.n) || ']'
  from json_array_elements(a.further::json) with ordinality e(entry, n))
where further is not null;

alter table schedule_audit drop column seals;
alter table worker_audit drop column seals;
alter table audit drop column seals;
alter table job drop column tree;
alter table step drop column tree, drop column folded;

create table kept_anchor (kind text, seq bigint, hash bytea, sealed bigint, primary key (kind, seq));
insert into kept_anchor select kind, seq, hash, sealed from anchor where sealed >= 0;
alter table anchor drop column sealed;
