package health

// Checks is the catalogue, in the order in which people want to know. The
// document docs/doctor.md is made of it.
var Checks = []Check{
	{
		Name: "database", What: "whether the database can be opened and used: its server is PostgreSQL 15 or newer with UTF8; the file is one of Pawl's",
		Healthy: "it can be opened", Rule: "problem if it cannot be used",
		Means: "Nothing runs, and nothing else can be looked at.", Cure: "see the message",
	},
	{
		Name: "schema_version", What: "the version of the schema, and that of this program", Healthy: "the schema is of this program's version",
		Rule:  "warning if the database is empty or one version behind, problem if this program does not work on it",
		Means: "Other commands refuse a database that this program does not work on. A newer schema was made by a newer pawl.", Cure: "an older schema: pawl migrate up; a newer one: use the newer pawl",
	},
	{
		Name: "schema", What: "tables, columns, indexes, constraints, domains and views, against what the migrations make", Healthy: "all is there that the migrations make",
		Rule:  "warning for a table that is not Pawl's, problem for what is missing or invalid",
		Means: "A missing index makes claims slow as the tables grow; a missing table or column makes them fail.", Cure: "make again what is missing, as pawl migrate up --dry-run shows it on an empty database; REINDEX an invalid index",
	},
	{
		Name: "settings", Store: "postgres", What: "fsync, full_page_writes, synchronous_commit and track_counts", Healthy: "fsync, full_page_writes, synchronous_commit and track_counts are on",
		Rule:  "warning for synchronous_commit off, problem for any other",
		Means: "With synchronous_commit off a crash of the server takes back the last moments; without fsync or full_page_writes it may ruin the database; without track_counts nothing is vacuumed.", Cure: "set it to on in postgresql.conf, or for the database with ALTER DATABASE, and reload the server",
	},
	{
		Name: "connections", Store: "postgres", What: "connections in use, of those that the server gives", Healthy: "there are connections left", Unit: Percent, Warn: 80, Problem: 95,
		Means: "Further processes cannot connect.", Cure: "raise max_connections of the server, or lower the connections of each process",
	},
	{
		Name: "sight", Store: "postgres", What: "whether this user sees what other users' sessions do", Healthy: "every session can be seen", Rule: "warning if there are sessions that cannot be seen",
		Means: "Long transactions of other users are not found.", Cure: "GRANT pg_read_all_stats to this user",
	},
	{
		Name: "transactions", Store: "postgres", What: "the age of the transactions that are open, idle ones included", Healthy: "no transaction is open for long", Unit: Seconds, Warn: 60, Problem: 300,
		Means: "What was deleted or updated since a transaction began cannot be vacuumed: tables and indexes grow, and claims get slower with them.", Cure: "end the session with select pg_terminate_backend(PID), and find out why it stays open; idle_in_transaction_session_timeout ends such sessions by itself",
	},
	{
		Name: "prepared_transactions", Store: "postgres", What: "the age of prepared transactions", Healthy: "there is no old prepared transaction", Unit: Seconds, Warn: 60, Problem: 300,
		Means: "They hold locks and hold back vacuum until they are ended, across restarts of the server too.", Cure: "COMMIT PREPARED or ROLLBACK PREPARED it",
	},
	{
		Name: "replication", Store: "postgres", What: "how many transactions replication slots and standbys hold back vacuum", Healthy: "nothing of replication holds back vacuum", Unit: Count, Warn: 100_000, Problem: 10_000_000,
		Means: "What was deleted or updated since cannot be vacuumed: tables and indexes grow.", Cure: "bring the subscriber or standby back, or select pg_drop_replication_slot(NAME)",
	},
	{
		Name: "replication_wal", Store: "postgres", What: "the write-ahead log that replication slots keep", Healthy: "no replication slot keeps much of the log", Unit: Bytes, Warn: 1 << 30, Problem: 16 << 30,
		Means: "The disk of the server fills up.", Cure: "bring the subscriber or standby back, or select pg_drop_replication_slot(NAME); max_slot_wal_keep_size bounds it",
	},
	{
		Name: "lock_waits", Store: "postgres", What: "how long sessions wait for locks of others", Healthy: "nobody waits long for a lock", Unit: Seconds, Warn: 10, Problem: 60,
		Means: "Somebody stands in the way of Pawl, or Pawl in theirs.", Cure: "end the session that holds the lock with select pg_terminate_backend(PID)",
	},
	{
		Name: "autovacuum", Store: "postgres", What: "whether autovacuum is on, for the server and for each table", Healthy: "autovacuum is on", Rule: "warning for a table, problem for the server",
		Means: "Dead rows stay, and claims walk over them.", Cure: "ALTER TABLE ... RESET (autovacuum_enabled); autovacuum = on in postgresql.conf",
	},
	{
		Name: "dead_rows", Store: "postgres", What: "the share of dead rows of each table", Healthy: "dead rows are vacuumed", Unit: Percent, Warn: 20, Problem: 60,
		Rule:  "if they are 10000 or more and the table was not vacuumed for 5 min",
		Means: "Reads walk over dead rows: claims get slower.", Cure: "see whether a transaction or a slot holds back vacuum (above); then VACUUM (VERBOSE) the table, and make autovacuum more eager: autovacuum_vacuum_cost_delay, autovacuum_max_workers",
	},
	{
		Name: "audit_partitions", Store: "postgres", What: "the partitions of the audit trail for today and the next two days", Healthy: "today and the coming days have their partitions",
		Rule:  "warning if a coming day has none, problem if today has none",
		Means: "Entries of that day go to audit_rest: nothing is lost, but they cannot be dropped by day.", Cure: "any process makes them when it starts, and each hour; if it does not, its log says why",
	},
	{
		Name: "audit_rest", Store: "postgres", What: "entries of the audit trail that are in no day's partition", Healthy: "audit_rest is empty", Unit: Count, Warn: 1,
		Means: "While it holds entries of a day, no partition can be made for that day. They are read and verified as all others.", Cure: "check the clocks of the machines that submit jobs; nothing is lost as it is",
	},
	{
		Name: "running", Store: "postgres", What: "whether queries can find all that has not ended: what waits by its line, and what runs by the table running", Healthy: "what has not ended can be found",
		Rule:  "problem for each job and step that cannot",
		Means: "It is claimed by nobody, or is not released when its worker dies, or is missing in lists. That is a fault of Pawl, or somebody has changed the tables: please report it.", Cure: "the statement that is given puts it where it belongs",
	},
	{
		Name: "audit_doubles", What: "whether an entry of a job's or a step's trail is stored more than once: newest jobs first, as far as it comes in 5 s", Healthy: "no entry stands twice",
		Rule:  "problem for each",
		Means: "Somebody has changed the trail, or the database was put together from two. What is older than what was looked at, pawl audit verify checks.", Cure: "pawl audit verify JOB says what is wrong with the trail; restore it from a backup",
	},
	{
		Name: "journal_mode", Store: "sqlite", What: "the journal mode of the file", Healthy: "journal_mode is wal", Rule: "problem if it is not wal",
		Means: "Readers and writers wait for each other. A file system that has no shared memory cannot do it.", Cure: "move the file to a local disk; any pawl command sets it to wal again",
	},
	{
		Name: "file_mode", Store: "sqlite", What: "the modes of the file and of what lies beside it", Healthy: "nobody but the user, and the group if the file is shared with it, can read the files", Rule: "warning if everybody can read or write one of them",
		Means: "Every user of the machine can read inputs, outputs and logs. Files that older versions have made are so.", Cure: "chmod o-rwx of the files that are named",
	},
	{
		Name: "synchronous", Store: "sqlite", What: "synchronous, as the name of the database sets it", Healthy: "synchronous is full", Rule: "warning if it is not full",
		Means: "A loss of power may take back the commits of the last moments.", Cure: "leave ?synchronous=normal out of the name of the database",
	},
	{
		Name: "network_file_system", Store: "sqlite", What: "the file system that the file is on (Linux)", Healthy: "the file is on a local file system", Rule: "warning for FUSE, problem for a network share",
		Means: "Locks and shared memory do not work there as SQLite needs them: the file may be ruined.", Cure: "move the file to a local disk, or use PostgreSQL",
	},
	{
		Name: "disk", Store: "sqlite", What: "the free space of the disk that the file is on", Healthy: "there is free space", Unit: Bytes, Warn: 1 << 30, Problem: 128 << 20, Low: true,
		Means: "When the disk is full every commit fails.", Cure: "free space, or move the file",
	},
	{
		Name: "wal_size", Store: "sqlite", What: "the size of the -wal file", Healthy: "the -wal file is small", Unit: Bytes, Warn: 256 << 20, Problem: 2 << 30,
		Means: "Reads get slower, and the disk fills up: a reader that stays open keeps it from starting over.", Cure: "see readers; end the process that reads",
	},
	{
		Name: "readers", Store: "sqlite", What: "what cannot be taken over from the -wal file into the file, since somebody reads", Healthy: "no reader holds back the -wal file", Unit: Bytes, Warn: 64 << 20, Problem: 1 << 30,
		Means: "The -wal file grows while that reader stays.", Cure: "end the process that has a read transaction open for long: lsof names those that have the file open",
	},
	{
		Name: "integrity", Store: "sqlite", What: "PRAGMA quick_check, as far as it comes in the time given", Healthy: "quick_check finds nothing", Rule: "problem for anything that it finds",
		Means: "The file is damaged: by its disk, by a copy made while it was in use, or by another program.", Cure: "stop every process, keep a copy, and restore a backup; sqlite3 FILE .recover saves what can be read",
	},
	{
		Name: "clocks", What: "how far the clocks of this machine and of the processes are from that of the database", Healthy: "clocks agree", Unit: Seconds, Warn: 2, Problem: 60,
		Means: "Leases and deadlines go by the database's clock, but ids, their order and the times in logs by those of the machines.", Cure: "have the machine's clock set by NTP",
	},
	{
		Name: "versions", What: "the versions of the programs that are alive", Healthy: "every process has the same version", Rule: "warning if they differ",
		Means: "That is as it should be during a rolling restart, and not after it.", Cure: "restart the older ones",
	},
	{
		Name: "server", What: "whether a process is alive that evaluates, while there are unfinished jobs", Healthy: "somebody evaluates, or there is nothing to do", Rule: "problem if there is none",
		Means: "Jobs whose next step needs an expression, a deadline or a wait stand still, and the dead are not released.", Cure: "start one: pawl server, or pawl dev",
	},
	{
		Name: "workers", What: "workers that are dead, and that nobody has released", Healthy: "every worker is alive", Rule: "warning for each",
		Means: "The steps that they held wait until a process that evaluates releases them, within seconds.", Cure: "start a process that evaluates if there is none; look at the log of the worker",
	},
	{
		Name: "routes", What: "work that no living worker serves", Healthy: "every queue with work is served", Rule: "problem for each",
		Means: "It waits until a worker for that workspace, queue and handler starts.", Cure: "start a worker for it; pawl job why JOB says which",
	},
	{
		Name: "queue", What: "how long the oldest work has been waiting for a worker", Healthy: "work does not wait long", Unit: Seconds, Warn: 600,
		Means: "There are too few workers, or they are too slow for what comes in.", Cure: "start more workers, or give them more capacity; pawl job why JOB says what the oldest waits for",
	},
	{
		Name: "deadlines", What: "how long deadlines have been over that nobody has acted on", Healthy: "deadlines are kept", Unit: Seconds, Warn: 10, Problem: 60,
		Means: "Sleeps, timeouts, retries and schedules are late: the processes that evaluate do not keep up, or there is none.", Cure: "start a process that evaluates, or more of them",
	},
	{
		Name: "evaluation", What: "how long jobs have been waiting to be evaluated", Healthy: "jobs are evaluated at once", Unit: Seconds, Warn: 10, Problem: 60,
		Means: "Their next steps are not enqueued: the processes that evaluate do not keep up, or there is none.", Cure: "start a process that evaluates, or more of them",
	},
	{
		Name: "stuck", What: "unfinished jobs of which nothing has moved for 10 minutes, and which wait neither for a person, a time, a signal, a child job nor a slot", Healthy: "no job is stuck", Unit: Count, Warn: 1,
		Means: "They will not end by themselves.", Cure: "pawl jobs --stuck says what each waits for",
	},
}
