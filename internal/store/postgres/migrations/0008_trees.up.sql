-- What people and programs put in is not in the trail any more: rows say what they
-- seal, and a job and a fan-out what was counted out of them. Jobs that are there have
-- no tree, and their rows stay as they are.

-- Steps before jobs, as everywhere.
alter table step
  add column tree   bytea, -- of the node of a fan-out: what was counted out of it
  add column folded bigint not null default 0; -- the number by which it was counted out, or 0
alter table job add column tree bytea; -- what was counted out of it; null if it is older than trees

alter table audit add column seals bytea; -- version, tree and seals; see audit.Entry.AppendExtra
alter table worker_audit add column seals bytea;
alter table schedule_audit add column seals bytea;

-- What an older program could not read, and the way down has kept.
create table if not exists kept_entry (kind text, a bigint, b bigint, seq bigint, seals bytea, further text, primary key (kind, a, b, seq));
create table if not exists kept_tree (job bigint, ord bigint, tree bytea, folded bigint, primary key (job, ord));
update step s set tree = k.tree, folded = k.folded from kept_tree k where k.job = s.job and k.ord = s.ord;
update job j set tree = k.tree from kept_tree k where k.job = j.id and k.ord = 0;
update audit a set seals = k.seals, further = k.further from kept_entry k where k.kind = 'job' and k.a = a.job and k.b = a.ord and k.seq = a.seq;
update worker_audit w set seals = k.seals from kept_entry k where k.kind = 'worker' and k.a = w.worker and k.seq = w.seq;
update schedule_audit s set seals = k.seals from kept_entry k where k.kind = 'schedule' and k.a = s.schedule and k.seq = s.seq;
drop table kept_entry;
drop table kept_tree;

-- Of how many jobs an anchor has the own trail alone; -1: it is older than that.
alter table anchor add column sealed bigint not null default -1;
create table if not exists kept_anchor (kind text, seq bigint, hash bytea, sealed bigint, primary key (kind, seq));
update anchor a set sealed = k.sealed from kept_anchor k where k.kind = a.kind and k.seq = a.seq and k.hash = a.hash;
drop table kept_anchor;
