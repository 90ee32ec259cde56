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
		Means: "With synchronous_commit off, a crash of the server loses the last commits; without fsync or full_page_writes it can corrupt the database; without track_counts nothing is vacuumed.", Cure: "set it to on in postgresql.conf, or for the database with ALTER DATABASE, and reload the server",
	},
	{
		Name: "connections", Store: "postgres", What: "connections in use, as a share of what the server allows, and how many each process of Pawl has", Healthy: "connections are available", Unit: Percent, Warn: 80, Problem: 95,
		Means: "No more processes can connect.", Cure: "raise max_connections of the server, or lower the number of connections of each process",
	},
	{
		Name: "sight", Store: "postgres", What: "whether this user can see the sessions of other users", Healthy: "every session can be seen", Rule: "warning if some sessions cannot be seen",
		Means: "Long transactions of other users are not found.", Cure: "GRANT pg_read_all_stats to this user",
	},
	{
		Name: "transactions", Store: "postgres", What: "the age of open transactions, including idle ones", Healthy: "no transaction stays open for long", Unit: Seconds, Warn: 60, Problem: 300,
		Means: "Rows deleted or updated after a transaction began cannot be vacuumed: tables and indexes grow, and claims get slower.", Cure: "end the session with select pg_terminate_backend(PID), and find out why it stays open; idle_in_transaction_session_timeout ends such sessions by itself",
	},
	{
		Name: "prepared_transactions", Store: "postgres", What: "the age of prepared transactions", Healthy: "there is no old prepared transaction", Unit: Seconds, Warn: 60, Problem: 300,
		Means: "They hold locks and hold back vacuum until they end, even across restarts of the server.", Cure: "COMMIT PREPARED or ROLLBACK PREPARED it",
	},
	{
		Name: "replication", Store: "postgres", What: "how many transactions replication slots and standbys hold back vacuum", Healthy: "replication does not hold back vacuum", Unit: Count, Warn: 100_000, Problem: 10_000_000,
		Means: "Rows deleted or updated since then cannot be vacuumed: tables and indexes grow.", Cure: "bring the subscriber or standby back, or select pg_drop_replication_slot(NAME)",
	},
	{
		Name: "replication_wal", Store: "postgres", What: "how much write-ahead log replication slots keep", Healthy: "no replication slot keeps much log", Unit: Bytes, Warn: 1 << 30, Problem: 16 << 30,
		Means: "The disk of the server fills up.", Cure: "bring the subscriber or standby back, or select pg_drop_replication_slot(NAME); max_slot_wal_keep_size sets a limit",
	},
	{
		Name: "lock_waits", Store: "postgres", What: "how long sessions wait for locks", Healthy: "no session waits long for a lock", Unit: Seconds, Warn: 10, Problem: 60,
		Means: "Another session blocks Pawl, or Pawl blocks it.", Cure: "end the session that holds the lock with select pg_terminate_backend(PID)",
	},
	{
		Name: "autovacuum", Store: "postgres", What: "whether autovacuum is on, for the server and for each table", Healthy: "autovacuum is on", Rule: "warning for a table, problem for the server",
		Means: "Dead rows remain, and claims have to skip them.", Cure: "ALTER TABLE ... RESET (autovacuum_enabled); autovacuum = on in postgresql.conf",
	},
	{
		Name: "dead_rows", Store: "postgres", What: "the share of dead rows of each table", Healthy: "dead rows are vacuumed", Unit: Percent, Warn: 20, Problem: 60,
		Rule:  "if they are 10000 or more and the table was not vacuumed for 5 min",
		Means: "Reads have to skip dead rows: claims get slower.", Cure: "see whether a transaction or a replication slot holds back vacuum (above); then VACUUM (VERBOSE) the table, and let autovacuum do more: autovacuum_vacuum_cost_delay, autovacuum_max_workers",
	},
	{
		Name: "audit_partitions", Store: "postgres", What: "the partitions of the audit trail for today and the next two days", Healthy: "today and the next days have partitions",
		Rule:  "warning if a coming day has none, problem if today has none",
		Means: "Entries of that day go to audit_rest: nothing is lost, but they cannot be dropped a day at a time.", Cure: "every process makes them when it starts, and each hour; if they are missing, its log says why",
	},
	{
		Name: "audit_rest", Store: "postgres", What: "audit entries outside of the partitions of days", Healthy: "audit_rest is empty", Unit: Count, Warn: 1,
		Means: "While it holds entries of a day, no partition can be made for that day. They are read and verified like all others.", Cure: "check the clocks of the machines that submit jobs; no data is lost",
	},
	{
		Name: "running", Store: "postgres", What: "whether queries can find all unfinished work: what waits by the column line, and what runs by the table running", Healthy: "unfinished work can be found",
		Rule:  "problem for each job and step that cannot",
		Means: "It is never claimed, or not released when its worker dies, or missing from lists. Either this is a bug in Pawl, or the tables were changed by hand: please report it.", Cure: "run the statement shown, which repairs the row",
	},
	{
		Name: "audit_doubles", What: "whether an entry of a job's or a step's trail is stored more than once: newest jobs first, for 5 s", Healthy: "no entry is stored twice",
		Rule:  "problem for each",
		Means: "The trail was changed by hand, or the database was merged from two. pawl audit verify also checks the older jobs.", Cure: "pawl audit verify JOB says what is wrong with the trail; restore it from a backup",
	},
	{
		Name: "journal_mode", Store: "sqlite", What: "the journal mode of the file", Healthy: "journal_mode is wal", Rule: "problem if it is not wal",
		Means: "Readers and writers wait for each other. A file system without shared memory does not support it.", Cure: "move the file to a local disk; any pawl command sets it to wal again",
	},
	{
		Name: "file_mode", Store: "sqlite", What: "the modes of the file and of the files beside it", Healthy: "only the user, and the group if the file is shared with it, can read the files", Rule: "warning if every user can read or write one of them",
		Means: "Every user of the machine can read inputs, outputs and logs. Files made by older versions have such modes.", Cure: "chmod o-rwx of the files that are named",
	},
	{
		Name: "synchronous", Store: "sqlite", What: "synchronous, as the name of the database sets it", Healthy: "synchronous is full", Rule: "warning if it is not full",
		Means: "A power failure can lose the last commits.", Cure: "leave ?synchronous=normal out of the name of the database",
	},
	{
		Name: "network_file_system", Store: "sqlite", What: "the file system of the file (Linux)", Healthy: "the file is on a local file system", Rule: "warning for FUSE, problem for a network share",
		Means: "Locks and shared memory do not work there as SQLite requires: the file can be corrupted.", Cure: "move the file to a local disk, or use PostgreSQL",
	},
	{
		Name: "disk", Store: "sqlite", What: "the free space on the disk of the file", Healthy: "there is free space", Unit: Bytes, Warn: 1 << 30, Problem: 128 << 20, Low: true,
		Means: "When the disk is full, every commit fails.", Cure: "free space, or move the file",
	},
	{
		Name: "wal_size", Store: "sqlite", What: "the size of the -wal file", Healthy: "the -wal file is small", Unit: Bytes, Warn: 256 << 20, Problem: 2 << 30,
		Means: "Reads get slower, and the disk fills up: while a reader stays open, the file cannot start over.", Cure: "see the check readers; end the process that reads",
	},
	{
		Name: "readers", Store: "sqlite", What: "how much of the -wal file cannot be copied to the database file because of a reader", Healthy: "no reader holds back the -wal file", Unit: Bytes, Warn: 64 << 20, Problem: 1 << 30,
		Means: "The -wal file grows while that reader stays.", Cure: "end the process whose read transaction stays open: lsof lists the processes that have the file open",
	},
	{
		Name: "integrity", Store: "sqlite", What: "PRAGMA quick_check, for as long as the command may take", Healthy: "quick_check finds nothing", Rule: "problem for each finding",
		Means: "The file is damaged: by its disk, by a copy made while it was in use, or by another program.", Cure: "stop every process, keep a copy, and restore a backup; sqlite3 FILE .recover saves what can be read",
	},
	{
		Name: "secrets", What: "whether the secrets of webhooks are encrypted in the database, with which keys, and whether servers have these", Healthy: "no secret can be read in the database",
		Rule:  "warning if secrets are stored as they are, or are encrypted with more than one key, and for each webhook that is blocked",
		Means: "Whoever can read the database, or a backup of it, can sign messages that receivers take for Pawl's. More than one key is normal while it is being changed, and not after that. Nothing is sent to a webhook whose key no server has.", Cure: "give each server a key: pawl server --secret-key-file FILE; then rotate what was readable: pawl webhook rotate NAME; pawl prune removes webhooks that were deleted",
	},
	{
		Name: "clocks", What: "how far the clocks of this machine and of the processes differ from the database's", Healthy: "clocks agree", Unit: Seconds, Warn: 2, Problem: 60,
		Means: "Leases and deadlines go by the database's clock, but ids, their order and the times in logs go by those of the machines.", Cure: "synchronize the machine's clock with NTP",
	},
	{
		Name: "versions", What: "the versions of the running programs", Healthy: "every process has the same version", Rule: "warning if they differ",
		Means: "That is normal during a rolling restart, and not after it.", Cure: "restart the older ones",
	},
	{
		Name: "server", What: "whether a server is alive while there are unfinished jobs", Healthy: "a server is alive, or there is nothing to do", Rule: "problem if there is none",
		Means: "Jobs whose next step needs an expression, a deadline or a wait stand still, and dead workers are not released.", Cure: "start one: pawl server, or pawl dev",
	},
	{
		Name: "workers", What: "dead workers that have not been released", Healthy: "every worker is alive", Rule: "warning for each",
		Means: "The steps that they held wait until a server releases them, within seconds.", Cure: "start a server if there is none; look at the log of the worker",
	},
	{
		Name: "routes", What: "work that no live worker serves", Healthy: "every queue with work is served", Rule: "problem for each",
		Means: "It waits until a worker for that workspace, queue and handler starts.", Cure: "start a worker for it; pawl job why JOB says which",
	},
	{
		Name: "queue", What: "how long the oldest work has been waiting for a worker", Healthy: "work does not wait long", Unit: Seconds, Warn: 600,
		Means: "There are too few workers, or they are too slow for the work that arrives.", Cure: "start more workers, or give them more capacity; pawl job why JOB says what the oldest job waits for",
	},
	{
		Name: "deadlines", What: "how long ago deadlines passed that no server has acted on", Healthy: "deadlines are acted on in time", Unit: Seconds, Warn: 10, Problem: 60,
		Means: "Sleeps, timeouts, retries and schedules are late: the servers do not keep up, or there is none.", Cure: "start a server, or more servers: pawl server, or pawl dev",
	},
	{
		Name: "evaluation", What: "how long jobs have been waiting to be evaluated", Healthy: "jobs are evaluated at once", Unit: Seconds, Warn: 10, Problem: 60,
		Means: "Their next steps are not enqueued: the servers do not keep up, or there is none.", Cure: "start a server, or more servers: pawl server, or pawl dev",
	},
	{
		Name: "stuck", What: "unfinished jobs that have not moved for 10 minutes, and do not wait for a person, a time, a signal, a child job or a slot", Healthy: "no job is stuck", Unit: Count, Warn: 1,
		Means: "They will not end by themselves.", Cure: "pawl jobs --stuck --attention says what each waits for",
	},
}
