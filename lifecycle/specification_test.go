package lifecycle_test

// A specification is a machine written down a second time, as the requirements
// word it, to be held against the table.
type specification struct {
	name     string
	create   string
	states   string // the first is the initial one
	ends     string
	resident bool
	rows     string
}

func specifications() []specification {
	return []specification{{
		name: "job", create: "submit", // J2
		states: "SUBMITTED PENDING RUNNING COMPLETED FAILED CANCELED",
		ends:   "COMPLETED FAILED CANCELED",
		rows: `
SUBMITTED validate           PENDING
SUBMITTED reject             FAILED
SUBMITTED cancel             CANCELED
PENDING   allocate_resources RUNNING
PENDING   cancel             CANCELED
PENDING   pause              PENDING
PENDING   resume             PENDING
PENDING   signal             PENDING
PENDING   move               PENDING
RUNNING   success            COMPLETED
RUNNING   error              FAILED
RUNNING   cancel             CANCELED
RUNNING   halt               RUNNING
RUNNING   pause              RUNNING
RUNNING   resume             RUNNING
RUNNING   hooks              RUNNING
RUNNING   signal             RUNNING
RUNNING   move               RUNNING
COMPLETED redact             COMPLETED
FAILED    redact             FAILED
CANCELED  redact             CANCELED
`}, {
		name: "step", create: "create", // T1; pending -retry-> pending is T13 and K5
		states: "pending enqueued in_progress complete retryable_error permanent_error cancelled skipped resolved_manually",
		ends:   "complete permanent_error cancelled skipped resolved_manually",
		rows: `
pending         enqueue          enqueued
pending         retry            pending
pending         skip             skipped
pending         cancel           cancelled
pending         resolve          resolved_manually
enqueued        claim            in_progress
enqueued        queue_timeout    retryable_error
enqueued        requeue          pending
enqueued        skip             skipped
enqueued        cancel           cancelled
enqueued        resolve          resolved_manually
in_progress     success          complete
in_progress     fail             retryable_error
in_progress     fail_permanently permanent_error
in_progress     timeout          retryable_error
in_progress     lost             retryable_error
in_progress     interrupt        pending
in_progress     cancel_requested in_progress
in_progress     cancel           cancelled
retryable_error retry            pending
retryable_error exhaust          permanent_error
retryable_error skip             skipped
retryable_error cancel           cancelled
retryable_error resolve          resolved_manually
permanent_error resolve          resolved_manually
`}, {
		name: "worker", create: "register", // J1
		states: "IDLE RUNNING PAUSED COMPLETED FAILED TERMINATED",
		ends:   "COMPLETED FAILED TERMINATED",
		rows: `
IDLE      start_task          RUNNING
IDLE      terminate           TERMINATED
RUNNING   pause               PAUSED
RUNNING   complete_tasks      COMPLETED
RUNNING   error_unrecoverable FAILED
RUNNING   terminate           TERMINATED
PAUSED    resume              RUNNING
PAUSED    terminate           TERMINATED
COMPLETED terminate           TERMINATED
FAILED    terminate           TERMINATED
`}, {
		name: "schedule", create: "create", // what changes no state is K5
		states: "active paused removed",
		ends:   "removed",
		rows: `
active fire   active
active skip   active
active queue  active
active update active
active pause  paused
active remove removed
paused update paused
paused resume active
paused remove removed
`}, {
		name: "token", create: "create",
		states: "active revoked expired",
		ends:   "revoked expired",
		rows: `
active revoke revoked
active expire expired
active extend active
`}, {
		name: "queue_pause", create: "pause",
		states: "paused resumed",
		ends:   "resumed",
		rows:   "paused resume resumed",
	}, {
		name: "webhook", create: "create",
		states: "active paused disabled deleted",
		ends:   "deleted",
		rows: `
active pause paused
active rotate active
active update active
active disable disabled
active gap active
active encrypt active
active block active
active delete deleted
paused resume active
paused rotate paused
paused update paused
paused encrypt paused
paused delete deleted
disabled resume active
disabled rotate disabled
disabled update disabled
disabled encrypt disabled
disabled delete deleted
`}, {
		name: "service", create: "add", // S15
		states: "stopped trying_to_start running degraded trying_to_stop failed removed",
		ends:   "removed", resident: true,
		rows: `
stopped         start    trying_to_start
stopped         remove   removed
trying_to_start started  running
trying_to_start stop     trying_to_stop
trying_to_start give_up  failed
running         degrade  degraded
running         exit     trying_to_start
running         stop     trying_to_stop
running         complete stopped
running         give_up  failed
degraded        recover  running
degraded        exit     trying_to_start
degraded        stop     trying_to_stop
degraded        give_up  failed
trying_to_stop  stopped  stopped
trying_to_stop  give_up  failed
failed          start    trying_to_start
failed          reset    stopped
failed          remove   removed
stopped         act      stopped
trying_to_start act      trying_to_start
running         act      running
degraded        act      degraded
trying_to_stop  act      trying_to_stop
failed          act      failed
stopped         settle   stopped
trying_to_start settle   trying_to_start
running         settle   running
degraded        settle   degraded
trying_to_stop  settle   trying_to_stop
failed          settle   failed
stopped         shift    stopped
trying_to_start shift    trying_to_start
running         shift    running
degraded        shift    degraded
trying_to_stop  shift    trying_to_stop
failed          shift    failed
`}, {
		name: "member", create: "spawn", // C1; attention is K5
		states:   "IDLE ASSIGNED WORKING IN_REVIEW APPROVED COMPLETED STALE FAILED",
		resident: true,
		rows: `
IDLE      assign_task       ASSIGNED
ASSIGNED  start_work        WORKING
ASSIGNED  setup_failed      FAILED
ASSIGNED  heartbeat_timeout STALE
ASSIGNED  died              STALE
ASSIGNED  cancel            FAILED
WORKING   submit_pr         IN_REVIEW
WORKING   work_failed       FAILED
WORKING   max_attempts      FAILED
WORKING   attempt_failed    ASSIGNED
WORKING   heartbeat_timeout STALE
WORKING   died              STALE
WORKING   cancel            FAILED
IN_REVIEW review_approved   APPROVED
IN_REVIEW changes_requested WORKING
IN_REVIEW review_timeout    STALE
IN_REVIEW cancel            FAILED
APPROVED  merge_success     COMPLETED
APPROVED  merge_conflict    WORKING
APPROVED  head_moved        IN_REVIEW
APPROVED  cancel            FAILED
STALE     worker_recovered  WORKING
STALE     setup_recovered   ASSIGNED
STALE     resolved          IN_REVIEW
STALE     reassign          ASSIGNED
STALE     timeout_exceeded  FAILED
STALE     cancel            FAILED
FAILED    reset             IDLE
FAILED    retry             ASSIGNED
COMPLETED recycle           IDLE
ASSIGNED  attention         ASSIGNED
WORKING   attention         WORKING
IN_REVIEW attention         IN_REVIEW
APPROVED  attention         APPROVED
ASSIGNED  attention_cleared ASSIGNED
WORKING   attention_cleared WORKING
IN_REVIEW attention_cleared IN_REVIEW
APPROVED  attention_cleared APPROVED
`}, {
		name: "agent", create: "connect", // L1, L3, L5
		states: "IDLE CONFIG_RECEIVED READY RUNNING COMPLETED ERROR ABORTED",
		ends:   "COMPLETED ERROR ABORTED",
		rows: `
IDLE            config            CONFIG_RECEIVED
IDLE            invalid_config    ERROR
IDLE            invalid_message   ERROR
IDLE            timeout           ERROR
IDLE            connection_lost   ERROR
IDLE            abort             ABORTED
IDLE            ping              IDLE
CONFIG_RECEIVED prepare_complete  READY
CONFIG_RECEIVED prepare_failed    ERROR
CONFIG_RECEIVED invalid_message   ERROR
CONFIG_RECEIVED timeout           ERROR
CONFIG_RECEIVED connection_lost   ERROR
CONFIG_RECEIVED abort             ABORTED
CONFIG_RECEIVED ping              CONFIG_RECEIVED
READY           start_accepted    READY
READY           start             RUNNING
READY           start_past        ERROR
READY           start_too_far     ERROR
READY           workload_failed   ERROR
READY           invalid_message   ERROR
READY           timeout           ERROR
READY           connection_lost   ERROR
READY           abort             ABORTED
READY           ping              READY
RUNNING         workload_finished COMPLETED
RUNNING         workload_failed   ERROR
RUNNING         invalid_message   ERROR
RUNNING         connection_lost   ERROR
RUNNING         abort             ABORTED
RUNNING         ping              RUNNING
`}, {
		name: "load", create: "begin", // L7
		states: "CONNECTING PREPARING STARTING RUNNING ENDING COMPLETED FAILED ABORTED",
		ends:   "COMPLETED FAILED ABORTED",
		rows: `
CONNECTING agents_connected  PREPARING
CONNECTING agent_failed      CONNECTING
CONNECTING fail              ENDING
CONNECTING abort             ENDING
PREPARING  agents_ready      STARTING
PREPARING  agent_failed      PREPARING
PREPARING  fail              ENDING
PREPARING  abort             ENDING
STARTING   start             RUNNING
STARTING   agent_failed      STARTING
STARTING   fail              ENDING
STARTING   abort             ENDING
RUNNING    workload_finished COMPLETED
RUNNING    agent_failed      RUNNING
RUNNING    fail              ENDING
RUNNING    abort             ENDING
ENDING     agent_failed      ENDING
ENDING     ended_failed      FAILED
ENDING     ended_aborted     ABORTED
`}}
}
