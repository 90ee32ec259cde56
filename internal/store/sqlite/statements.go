package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The tables of the records.
var (
	jobTable      = tableOf(store.Jobs)
	stepTable     = tableOf(store.Steps.With(store.DerivedColumn("place", place)))
	workerTable   = tableOf(store.Workers)
	scheduleTable = tableOf(store.Schedules)
	tokenTable    = tableOf(store.Tokens)
	pauseTable    = tableOf(store.QueuePauses)
	webhookTable  = tableOf(store.Webhooks)
)

// A table holds the columns of one kind of record in the form of statements.
type table[R any] struct {
	*store.Table[R]
	key, read, moving, bodies []*store.Column[R]
	change                    []*store.Column[R] // moving and bodies
	insert                    []*store.Column[R] // all
}

// tableOf returns the table of one kind of record.
func tableOf[R any](t *store.Table[R]) *table[R] {
	return &table[R]{Table: t, key: t.Of(store.Key), read: t.Of(store.Key, store.Fixed, store.Moving),
		moving: t.Of(store.Moving, store.Derived), bodies: t.Of(store.Body), change: t.Of(store.Moving, store.Derived, store.Body),
		insert: slices.Clone(t.Columns)}
}

// names lists columns: "a, b".
func names[R any](list []*store.Column[R]) string {
	var b strings.Builder
	for i, c := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.Name)
	}
	return b.String()
}

// update returns the statement that writes columns of the row with a key, if it is at a
// version. A body that is NULL stays unchanged.
func (t *table[R]) update(list []*store.Column[R]) string {
	var set, where strings.Builder
	for _, c := range list {
		value := "?"
		if c.Role == store.Body {
			value = "coalesce(?, " + c.Name + ")"
		}
		set.WriteString(", " + c.Name + " = " + value)
	}
	for _, c := range t.key {
		where.WriteString(c.Name + " = ? AND ")
	}
	return "UPDATE " + t.Name + " SET " + set.String()[len(", "):] + " WHERE " + where.String() + "seq = ?"
}

// The lists of columns of records.
var (
	jobNew      = names(jobTable.insert)
	jobHot      = names(jobTable.read)
	jobWhole    = names(slices.Concat(jobTable.read, jobTable.bodies))
	stepNew     = names(stepTable.insert)
	stepHot     = names(stepTable.read)
	stepAll     = names(slices.Concat(stepTable.read, stepTable.bodies))
	workerAll   = names(workerTable.Columns)
	scheduleAll = names(scheduleTable.Columns)
	tokenAll    = names(tokenTable.Columns)
	pauseAll    = names(pauseTable.Columns)
	webhookAll  = names(webhookTable.Columns)
)

// Columns of tables that are not records, in the order in which the codec binds and reads
// them.
const (
	bareColumns       = "seq, state, event, reason, actor, request_id, metadata, at, hash"
	entryColumns      = bareColumns + ", seals"
	trailColumns      = "ord, " + entryColumns + ", more"
	packColumns       = "job, ord, " + bareColumns + ", more, seals"
	definitionColumns = "id, hash, name, source, created_at"
	refusalColumns    = "job, ord, at, claim, event, actor, why, data"
	versionColumns    = "workspace, name, version, definition, dir, at, actor, reason"
	nodeColumns       = "id, role, name, host, pid, version, started_at, at, skew"
	quotaColumns      = "workspace, name, slots, at, actor, reason"

	reservationColumns = "uuid, workspace, depth, slots, pool, expires_at, actor, reason"
	anchorColumns      = "kind, seq, day, count, entries, first_created, last_created, first_ended, last_ended, last, digest, at, actor, reason, hash, sealed"
	signalColumns      = "job, seq, name, at, actor, taken, data"
)

// Conditions spelled as in the partial indexes; otherwise SQLite does not see that it may use
// them.
const (
	inFlight = "(state = 'enqueued' OR state = 'in_progress')"
	running  = jobsOpen + " AND state = 'RUNNING'"
	jobsOpen = "(state = 'SUBMITTED' OR state = 'PENDING' OR state = 'RUNNING')"
	living   = "(state = 'IDLE' OR state = 'RUNNING' OR state = 'PAUSED')"
)

// jobThere is for views of the steps of a job: they do not show the rest of a job that
// retention is removing.
const jobThere = "EXISTS (SELECT 1 FROM job WHERE id = ?1)"

// The rows of a table o that retention removes, if they ended before ?1: jobs that no
// unfinished job needs, workers that hold nothing.
const (
	oldJob    = "o.updated_at < ?1 AND NOT (o.state = 'SUBMITTED' OR o.state = 'PENDING' OR o.state = 'RUNNING')"
	neededJob = "(EXISTS (SELECT 1 FROM job INDEXED BY job_continues WHERE continues <> 0 AND continues = o.id AND " + jobsOpen + ")" +
		" OR EXISTS (SELECT 1 FROM job INDEXED BY job_parent WHERE parent <> 0 AND parent = o.id AND " + jobsOpen + ")" +
		" OR o.parent <> 0 AND EXISTS (SELECT 1 FROM job WHERE id = o.parent AND " + jobsOpen + "))"
	oldWorker = "o.updated_at < ?1 AND NOT (o.state = 'IDLE' OR o.state = 'RUNNING' OR o.state = 'PAUSED')" +
		" AND NOT EXISTS (SELECT 1 FROM step INDEXED BY step_flight WHERE " + inFlight + " AND state = 'in_progress' AND place = o.id)"
	oldSchedule = "o.updated_at < ?1 AND o.state = 'removed'"
	oldToken    = "o.updated_at < ?1 AND o.state <> 'active'"
	oldPause    = "o.updated_at < ?1 AND o.state <> 'paused'"
	oldWebhook  = "o.updated_at < ?1 AND o.state = 'deleted'"
)

// The columns of the places and the deliveries of webhooks.
const (
	placeColumns    = "webhook, version, token, moved, failing_since, failures, error, gap_at, gap"
	deliveryColumns = "moved, message, type, attempt, at, duration, status, delivered, error, body"
)

// due returns the query for the passed deadlines of a table, beyond a time and a key.
func due(table, key string) string {
	behind := "?2, ?3" + strings.Repeat(", ?4", strings.Count(key, ","))
	return "SELECT due_at, due_event, " + key + " FROM " + table + " INDEXED BY " + table + "_due WHERE due_at > 0 AND due_at <= ?1" +
		" AND (due_at, " + key + ") > (" + behind + ") ORDER BY due_at, " + key + " LIMIT ?5 + 0"
}

func oldOnes(table, condition string) string {
	return "SELECT id FROM " + table + " o WHERE " + condition + " AND id < ?2 AND id > ?3 ORDER BY id LIMIT ?4 + 0"
}

func oldOne(table, condition string) string {
	return "SELECT created_at, updated_at, seq, head FROM " + table + " o WHERE " + condition + " AND id = ?2"
}

// A statement is an index into texts.
type statement int

const (
	begin statement = iota
	beginRead
	commit
	rollback
	dataVersion

	insertJob
	insertJob8
	insertJob32
	insertStep
	insertStep8
	insertStep32
	insertWorker
	insertSchedule
	insertToken
	insertPause
	insertWebhook
	insertVersion
	insertQuota
	insertSignal
	insertAudit
	insertAudit8
	insertAudit32
	insertWorkerAudit
	insertScheduleAudit
	insertTokenAudit
	insertPauseAudit
	insertWebhookAudit
	insertPlace
	updatePlace
	insertDelivery
	sweepDeliveries
	insertDefinition
	insertRefusal

	insertFeed
	selectFeedEpoch
	selectFeedEnds
	selectFeedAt
	selectFeed
	selectFed
	selectFedWorker
	selectFedSchedule
	selectFedPause
	selectFedToken
	selectFedWebhook
	sweepFeed
	insertAnswer
	updateJob
	updateJobBodies
	updateJobCounts
	updateJobMove
	updateJobEnd
	updateStep
	updateStepBodies
	updateStepTake
	updateStepEnd
	updateStepSpread
	updateWorker
	updateSchedule
	updateToken
	updatePause
	updateWebhook
	takeSignal
	deleteQuota
	sweepAnswers
	upsertNode
	sweepNodes
	upsertTurn
	updateRemoteBeat
	replaceAnchor
	removeJob
	removeSteps
	removeTrails
	removeSignals
	removeRefusals
	removeWorker
	removeWorkerTrail
	removeTurn
	removeSchedule
	removeScheduleTrail
	removeToken
	removePause
	removeWebhook
	removeTokenTrail
	removePauseTrail
	removeWebhookTrail
	removeWebhookPlace
	removeDeliveries
	insertRemoval
	removeRemoval

	selectAnswer
	countPoolJobs
	selectPoolPending
	countPoolQuota
	countPoolSteps
	selectVersion
	selectNewestVersion
	selectSchedule
	selectScheduled
	selectToken
	selectPause
	selectWebhook
	selectTokened
	selectPausedQueue
	selectHooked
	selectPlace
	selectPlaces
	selectDeliveries
	selectDelivered
	selectFreeSignals
	countFreeSignals
	selectWorker
	selectJob
	selectJobInputs
	selectJobAll
	selectStep
	selectStepBodies
	selectMarked
	selectWaiting
	selectOpenSteps
	selectNextNode
	selectRootSteps
	selectHeld
	selectClaimableSteps
	selectClaimableJobs

	selectMarkedJobs
	selectNextMarkedStep
	selectDueJobs
	selectDueSteps
	selectDueWorkers
	selectDueSchedules
	selectDueTokens
	selectNextDue
	selectUnrouted
	selectNextHolder
	selectStops
	selectClaimed
	selectWorkerState
	selectTurn
	selectRemoteBeat
	selectNodes

	selectStepsAll
	selectStepsHot
	selectStepsBare
	selectRunning
	selectRunningRoute
	selectRunningRanks
	selectStepCounts
	selectNewestSteps
	selectWorkers
	selectLivingWorkers
	selectInFlight
	selectJobSequence
	selectNextRoute
	selectLine
	selectHeldLines
	selectQuotas
	selectQuota
	selectReservation
	insertReservation
	deleteReservation
	sweepReservations
	selectSignals
	selectSchedules
	selectTokens
	selectTokenBySum
	selectPauses
	selectLastingPauses
	selectWebhooks
	selectVersions
	selectNewestVersions
	selectDefinition
	selectStepTrail
	selectJobTrail
	selectWorkerTrail
	selectScheduleTrail
	selectTokenTrail
	selectPauseTrail
	selectWebhookTrail
	selectJobID
	selectWorkerID
	selectScheduleID
	selectTokenID
	selectPauseID
	selectWebhookID
	selectNextJob
	selectNextWorker
	selectNextSchedule
	selectNextToken
	selectNextPause
	selectNextWebhook
	selectTrailPage
	selectHistory
	selectJobSeq
	selectStepSeq
	selectRefusals
	countRefusals
	selectSignalData
	selectJobPayload
	selectStepPayload
	selectSchedulePayload
	selectOldJobs
	selectOldJob
	selectOldWorkers
	selectOldWorker
	selectOldSchedules
	selectOldSchedule
	selectOldTokens
	selectOldPauses
	selectOldWebhooks
	selectOldToken
	selectOldPause
	selectOldWebhook
	selectHeads
	selectRemoval
	selectHeldSchedules
	selectKeyAfter
	selectUnstarted
	selectSealed
	selectAnchors
	selectNewestAnchors
	countOldJobs
	countOldWorkers
	countOldSchedules
	countOldTokens
	countOldPauses
	countOldWebhooks

	insertChunk
	removeChunks
	selectNextLog
	selectChunks
	selectChunk

	statementCount
)

// A limit is written "? + 0": for a bare parameter, SQLite uses its value when it plans, and
// would prepare the statement again for each binding.
var texts = [statementCount]string{
	begin:     "BEGIN IMMEDIATE",
	beginRead: "BEGIN",
	commit:    "COMMIT",
	rollback:  "ROLLBACK",

	dataVersion: "PRAGMA data_version",

	insertJob:           insert("job", jobNew),
	insertJob8:          insertRows("job", jobNew, 8),
	insertJob32:         insertRows("job", jobNew, 32),
	insertStep:          insert("step", stepNew),
	insertStep8:         insertRows("step", stepNew, 8),
	insertStep32:        insertRows("step", stepNew, 32),
	insertWorker:        insert("worker", workerAll),
	insertAudit:         insert("audit", packColumns),
	insertAudit8:        insertRows("audit", packColumns, 8),
	insertAudit32:       insertRows("audit", packColumns, 32),
	insertWorkerAudit:   insert("worker_audit", "worker, "+entryColumns),
	insertScheduleAudit: insert("schedule_audit", "schedule, "+entryColumns),
	insertSchedule:      insert("schedule", scheduleAll),
	insertTokenAudit:    insert("token_audit", "token, "+entryColumns),
	insertWebhookAudit:  insert("webhook_audit", "webhook, "+entryColumns),
	insertToken:         insert("token", tokenAll),
	insertPauseAudit:    insert("queue_pause_audit", "queue_pause, "+entryColumns),
	insertPause:         insert("queue_pause", pauseAll),
	insertWebhook:       insert("webhook", webhookAll),
	insertVersion:       insert("version", versionColumns),
	insertQuota: insert("quota", quotaColumns) + " ON CONFLICT (workspace, name) DO UPDATE SET" +
		" slots = excluded.slots, at = excluded.at, actor = excluded.actor, reason = excluded.reason",
	insertSignal:     insert("signal", signalColumns),
	insertDefinition: insert("definition", definitionColumns) + " ON CONFLICT DO NOTHING",
	insertRefusal:    insert("refusal", refusalColumns),

	insertFeed:      insert("feed", "at, rows"),
	selectFeedEpoch: "SELECT epoch FROM feed_epoch",
	selectFeedEnds:  "SELECT (SELECT min(pos) FROM feed), (SELECT max(pos) FROM feed)",
	selectFeedAt:    "SELECT at FROM feed WHERE pos = ?",
	selectFeed:      "SELECT pos, at, rows FROM feed WHERE pos >= ?1 ORDER BY pos LIMIT ?2 + 0",
	selectFed: "SELECT j.uuid, j.workspace, j.workflow, j.definition, " + prefixed("a", trailColumns) +
		" FROM audit a JOIN job j ON j.id = a.job WHERE a.job = ? AND a.ord = ? AND a.seq = ?",
	selectFedWorker: "SELECT w.uuid, w.workspace, w.name, " + prefixed("a", entryColumns) +
		" FROM worker_audit a JOIN worker w ON w.id = a.worker WHERE a.worker = ? AND a.seq = ?",
	selectFedSchedule: "SELECT s.uuid, s.workspace, s.name, " + prefixed("a", entryColumns) +
		" FROM schedule_audit a JOIN schedule s ON s.id = a.schedule WHERE a.schedule = ? AND a.seq = ?",
	selectFedPause: "SELECT p.uuid, p.workspace, p.queue, " + prefixed("a", entryColumns) +
		" FROM queue_pause_audit a JOIN queue_pause p ON p.id = a.queue_pause WHERE a.queue_pause = ? AND a.seq = ?",
	selectFedToken: "SELECT t.uuid, '', t.name, " + prefixed("a", entryColumns) +
		" FROM token_audit a JOIN token t ON t.id = a.token WHERE a.token = ? AND a.seq = ?",
	selectFedWebhook: "SELECT w.uuid, w.workspace, w.name, " + prefixed("a", entryColumns) +
		" FROM webhook_audit a JOIN webhook w ON w.id = a.webhook WHERE a.webhook = ? AND a.seq = ?",
	// The row before the first one that is kept dates a token; see DB.since.
	sweepFeed: "DELETE FROM feed WHERE pos IN (SELECT pos FROM feed WHERE pos < coalesce(" +
		"(SELECT pos FROM feed WHERE at >= ?1 AND at <= ?2 ORDER BY pos LIMIT 1) - 1, (SELECT max(pos) FROM feed)) ORDER BY pos LIMIT ?3 + 0)",
	insertAnswer: "INSERT OR REPLACE INTO idempotency (workspace, key, endpoint, request_hash, status, created_at, expires_at, body)" +
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	updateJob:        jobTable.update(jobTable.moving),
	updateJobBodies:  jobTable.update(jobTable.change),
	updateJobCounts:  jobTable.update(jobCounts.Columns),
	updateJobMove:    jobTable.update(jobMove.Columns),
	updateJobEnd:     jobTable.update(jobEnd.Columns),
	updateStep:       stepTable.update(stepTable.moving),
	updateStepBodies: stepTable.update(stepTable.change),
	updateStepTake:   stepTable.update(stepTake.Columns),
	updateStepEnd:    stepTable.update(stepEnd.Columns),
	updateStepSpread: stepTable.update(stepSpread.Columns),
	updateWorker:     workerTable.update(workerTable.change),
	updateSchedule:   scheduleTable.update(scheduleTable.change),
	updateToken:      tokenTable.update(tokenTable.change),
	updatePause:      pauseTable.update(pauseTable.change),
	updateWebhook:    webhookTable.update(webhookTable.change),
	takeSignal:       "UPDATE signal SET taken = ? WHERE job = ? AND seq = ? AND taken = 0",
	deleteQuota:      "DELETE FROM quota WHERE workspace = ? AND name = ?",
	sweepAnswers: "DELETE FROM idempotency WHERE (workspace, key) IN" +
		" (SELECT workspace, key FROM idempotency WHERE expires_at > 0 AND expires_at <= ? ORDER BY expires_at LIMIT ? + 0)",

	upsertNode: insert("node", nodeColumns) + " ON CONFLICT (id) DO UPDATE SET at = excluded.at, skew = excluded.skew",
	sweepNodes: "DELETE FROM node WHERE at <= ?",

	upsertTurn:       insert("remote", "worker, turn, tries, at") + " ON CONFLICT (worker) DO UPDATE SET turn = excluded.turn, tries = excluded.tries",
	updateRemoteBeat: "UPDATE remote SET at = ? WHERE worker = ?",

	selectAnswer:      "SELECT endpoint, request_hash, status, expires_at, body FROM idempotency WHERE workspace = ? AND key = ?",
	countPoolJobs:     "SELECT count(*) FROM job INDEXED BY job_pool WHERE state = 'RUNNING' AND pool <> 0 AND pool = ?",
	selectPoolPending: "SELECT rank, id FROM job INDEXED BY job_pool WHERE state = 'PENDING' AND pool <> 0 AND pool = ? AND paused = 0 AND (rank, id) > (?, ?) ORDER BY rank, id LIMIT ? + 0",
	countPoolQuota: "SELECT coalesce((SELECT sum(worker_count) FROM job INDEXED BY job_quota WHERE state = 'RUNNING' AND quota <> 0 AND quota = ?1), 0)" +
		" + coalesce((SELECT sum(slots) FROM reservation INDEXED BY reservation_pool WHERE pool = ?1 AND expires_at > ?2), 0)",
	selectReservation:   "SELECT " + reservationColumns + " FROM reservation WHERE uuid = ? AND expires_at > ?",
	insertReservation:   insert("reservation", reservationColumns),
	deleteReservation:   "DELETE FROM reservation WHERE uuid = ?",
	sweepReservations:   "DELETE FROM reservation WHERE expires_at <= ?",
	countPoolSteps:      "SELECT count(*) FROM step INDEXED BY step_pool WHERE state = 'in_progress' AND pool <> 0 AND pool = ?",
	selectVersion:       "SELECT " + versionColumns + " FROM version WHERE workspace = ? AND name = ? AND version = ?",
	selectNewestVersion: "SELECT " + versionColumns + " FROM version WHERE workspace = ? AND name = ? ORDER BY version DESC LIMIT 1",
	selectSchedule:      "SELECT " + scheduleAll + " FROM schedule WHERE id = ?",
	selectScheduled:     "SELECT " + scheduleAll + " FROM schedule WHERE state <> 'removed' AND workspace = ? AND name = ?",
	selectToken:         "SELECT " + tokenAll + " FROM token WHERE id = ?",
	selectWebhook:       "SELECT " + webhookAll + " FROM webhook WHERE id = ?",
	selectTokened:       "SELECT " + tokenAll + " FROM token WHERE state = 'active' AND name = ?",
	selectPause:         "SELECT " + pauseAll + " FROM queue_pause WHERE id = ?",
	selectPausedQueue:   "SELECT " + pauseAll + " FROM queue_pause WHERE state = 'paused' AND workspace = ? AND queue = ?",
	insertPlace:         insert("webhook_place", placeColumns),
	updatePlace: "UPDATE webhook_place SET version = version + 1, token = ?2, moved = ?3, failing_since = ?4, failures = ?5, error = ?6, gap_at = ?7, gap = ?8" +
		" WHERE webhook = ?1 AND version = ?9",
	insertDelivery: insert("webhook_delivery", "webhook, "+deliveryColumns),
	// The index finds the last ones; those that are to go are before them.
	sweepDeliveries: "DELETE FROM webhook_delivery WHERE webhook = ?1 AND moved <> (SELECT moved FROM webhook_place WHERE webhook = ?1)" +
		" AND id <= (SELECT id FROM webhook_delivery WHERE webhook = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2 + 0)",
	selectPlace:       "SELECT " + placeColumns + " FROM webhook_place WHERE webhook = ?",
	selectPlaces:      "SELECT coalesce(nullif(p.token, ''), w.begin) FROM webhook w LEFT JOIN webhook_place p ON p.webhook = w.id WHERE w.state <> 'deleted'",
	selectDeliveries:  "SELECT id, " + deliveryColumns + " FROM webhook_delivery WHERE webhook = ? AND id < ? ORDER BY id DESC LIMIT ? + 0",
	selectDelivered:   "SELECT message FROM webhook_delivery WHERE webhook = ? AND moved = ? AND delivered <> 0",
	selectHooked:      "SELECT " + webhookAll + " FROM webhook WHERE state <> 'deleted' AND workspace = ? AND name = ?",
	selectFreeSignals: "SELECT " + signalColumns + " FROM signal INDEXED BY signal_free WHERE taken = 0 AND job = ? ORDER BY seq LIMIT ? + 0",
	countFreeSignals: "SELECT count(*), coalesce(sum(size), 0) FROM (SELECT octet_length(data) AS size FROM signal INDEXED BY signal_free" +
		" WHERE taken = 0 AND job = ? ORDER BY seq LIMIT ? + 0)",
	selectWorker:     "SELECT " + workerAll + " FROM worker WHERE id = ?",
	selectJob:        "SELECT " + jobHot + " FROM job WHERE id = ?",
	selectJobInputs:  "SELECT " + jobHot + ", inputs, metadata FROM job WHERE id = ?",
	selectJobAll:     "SELECT " + jobWhole + " FROM job WHERE id = ?",
	selectStep:       "SELECT " + stepHot + " FROM step WHERE job = ? AND ord = ?",
	selectStepBodies: "SELECT " + stepAll + " FROM step WHERE job = ? AND ord = ?",
	selectMarked:     "SELECT " + stepHot + " FROM step INDEXED BY step_mark WHERE mark <> 0 AND mark = 1 AND job = ? ORDER BY mark_at, ord LIMIT ? + 0",
	selectWaiting:    "SELECT job, ord FROM step INDEXED BY step_mark WHERE mark <> 0 AND mark = 2 AND job = ? AND mark_at = 0 ORDER BY priority DESC, ord LIMIT ? + 0",
	selectOpenSteps: "SELECT " + stepHot + " FROM step WHERE job = ? AND state NOT IN" +
		" ('complete', 'permanent_error', 'cancelled', 'skipped', 'resolved_manually') ORDER BY ord",
	selectNextNode:  "SELECT " + stepHot + " FROM step WHERE job = ? AND ord >= ? ORDER BY ord LIMIT 1",
	selectRootSteps: "SELECT " + stepHot + " FROM step WHERE job = ? AND unmet = 0 ORDER BY ord",
	selectHeld: "SELECT " + stepHot + " FROM step INDEXED BY step_flight WHERE " + inFlight +
		" AND state = 'in_progress' AND place = ? ORDER BY job, ord",
	selectClaimableSteps: "SELECT rank, job, ord FROM step INDEXED BY step_flight WHERE " + inFlight +
		" AND state = 'enqueued' AND place = ? ORDER BY rank, job, ord LIMIT ? + 0",
	selectClaimableJobs: "SELECT rank, id FROM job INDEXED BY job_open WHERE " + jobsOpen +
		" AND state = 'PENDING' AND route = ? AND paused = 0 ORDER BY rank, id LIMIT ? + 0",

	selectMarkedJobs: "SELECT mark_at, id FROM job INDEXED BY job_mark_at WHERE mark_at > 0 AND mark_at <= ?1 AND (mark_at, id) > (?2, ?3)" +
		" ORDER BY mark_at, id LIMIT ?4 + 0",
	selectNextMarkedStep: "SELECT mark_at, job FROM step INDEXED BY step_mark_at WHERE mark_at > 0 AND mark_at <= ?1 AND (mark_at, job) > (?2, ?3)" +
		" ORDER BY mark_at, job LIMIT 1",
	selectDueJobs:      due("job", "id"),
	selectDueSteps:     due("step", "job, ord"),
	selectDueWorkers:   due("worker", "id"),
	selectDueSchedules: due("schedule", "id"),
	selectDueTokens:    due("token", "id"),
	selectNextDue: "SELECT min(at) FROM (SELECT min(due_at) AS at FROM job WHERE due_at > 0 AND due_at > ?1" +
		" UNION ALL SELECT min(mark_at) FROM job WHERE mark_at > 0 AND mark_at > ?1" +
		" UNION ALL SELECT min(mark_at) FROM step WHERE mark_at > 0 AND mark_at > ?1" +
		" UNION ALL SELECT min(due_at) FROM step WHERE due_at > 0 AND due_at > ?1" +
		" UNION ALL SELECT min(due_at) FROM worker WHERE due_at > 0 AND due_at > ?1" +
		" UNION ALL SELECT min(due_at) FROM schedule WHERE due_at > 0 AND due_at > ?1" +
		" UNION ALL SELECT min(due_at) FROM token WHERE due_at > 0 AND due_at > ?1)",
	selectUnrouted: "SELECT rank, id FROM job INDEXED BY job_open WHERE " + jobsOpen +
		" AND state = 'PENDING' AND route = 0 AND paused = 0 AND (rank, id) > (?, ?) ORDER BY rank, id LIMIT ? + 0",
	selectNextHolder: "SELECT s.place, w.state, w.updated_at FROM (SELECT place FROM step INDEXED BY step_flight WHERE " + inFlight +
		" AND state = 'in_progress' AND place > ? ORDER BY place LIMIT 1) s LEFT JOIN worker w ON w.id = s.place",
	selectWorkerState: "SELECT state FROM worker WHERE id = ?",
	selectTurn:        "SELECT turn, tries FROM remote WHERE worker = ?",
	selectRemoteBeat:  "SELECT at FROM remote WHERE worker = ?",
	selectNodes:       "SELECT " + nodeColumns + " FROM node WHERE at > ? ORDER BY started_at, id",
	selectClaimed:     "SELECT 1 FROM step WHERE job = ? AND ord = ? AND claims = ? AND place = ? AND state = 'in_progress'",
	selectStops: "SELECT job, ord, claims FROM step INDEXED BY step_flight WHERE " + inFlight +
		" AND state = 'in_progress' AND place = ? AND due_event = 'cancel' ORDER BY job, ord",

	selectStepsAll:  "SELECT " + stepAll + " FROM step WHERE job = ?1 AND ord > ?2 AND " + jobThere + " ORDER BY ord LIMIT ?3 + 0",
	selectStepsHot:  "SELECT " + stepHot + " FROM step WHERE job = ? ORDER BY ord",
	selectStepsBare: "SELECT " + stepHot + " FROM step WHERE job = ?1 AND ord > ?2 AND " + jobThere + " ORDER BY ord LIMIT ?3 + 0",
	selectRunning: "SELECT " + jobHot + " FROM job INDEXED BY job_open WHERE " + running +
		" AND (route, paused, rank, id) > (?, ?, ?, ?) ORDER BY route, paused, rank, id LIMIT ? + 0",
	selectRunningRoute: "SELECT route FROM job INDEXED BY job_open WHERE " + running + " AND route >= ? ORDER BY route LIMIT 1",
	selectRunningRanks: "SELECT (SELECT rank FROM job INDEXED BY job_open WHERE " + running + " AND route = ?1 AND paused = 0 ORDER BY rank LIMIT 1)," +
		" (SELECT rank FROM job INDEXED BY job_open WHERE " + running + " AND route = ?1 AND paused = 0 ORDER BY rank DESC LIMIT 1)",
	selectNewestSteps:   "SELECT job, ord, state, enqueued_at, started_at, completed_at FROM step ORDER BY job DESC, ord DESC LIMIT ?1 + 0",
	selectStepCounts:    "SELECT state, count(*) FROM step WHERE job = ?1 AND " + jobThere + " GROUP BY state",
	selectWorkers:       "SELECT " + workerAll + " FROM worker WHERE id < ? ORDER BY id DESC LIMIT ?",
	selectLivingWorkers: "SELECT " + workerAll + " FROM worker INDEXED BY worker_living WHERE " + living + " AND id < ? ORDER BY id DESC LIMIT ?",
	selectInFlight:      "SELECT state, place, count(*) FROM step INDEXED BY step_flight WHERE " + inFlight + " GROUP BY state, place",
	selectJobSequence:   "SELECT uuid, seq + (SELECT coalesce(sum(seq), 0) FROM step WHERE job = ?1) FROM job WHERE id = ?1",
	selectNextRoute:     "SELECT place FROM step INDEXED BY step_flight WHERE " + inFlight + " AND state = 'enqueued' AND place > ? ORDER BY place LIMIT 1",
	selectLine: "SELECT (SELECT count(*) FROM step INDEXED BY step_flight WHERE " + inFlight + " AND state = 'enqueued' AND place = ?1), min(enqueued_at), min(job)" +
		" FROM (SELECT enqueued_at, job FROM step INDEXED BY step_flight WHERE " + inFlight + " AND state = 'enqueued' AND place = ?1 ORDER BY rank, job, ord LIMIT ?2 + 0)",
	selectHeldLines: "SELECT route, min(job), count(*) FROM step INDEXED BY step_flight WHERE " + inFlight + " AND state = 'in_progress' AND place > 0 GROUP BY route",
	selectQuota:     "SELECT " + quotaColumns + " FROM quota WHERE workspace = ? AND name = ?",
	selectQuotas:    "SELECT " + quotaColumns + " FROM quota WHERE (?1 = '' OR workspace = ?1) AND (name, workspace) > (?2, ?3) ORDER BY name, workspace LIMIT ?4 + 0",
	selectSignals:   "SELECT job, seq, name, at, actor, taken, NULL FROM signal INDEXED BY signal_free WHERE taken = 0 AND job = ? ORDER BY seq LIMIT ? + 0",
	selectSchedules: "SELECT " + scheduleAll + " FROM schedule WHERE state <> 'removed' AND (?1 = '' OR workspace = ?1) AND (?2 = '' OR name = ?2)" +
		" AND (name, workspace) > (?3, ?4) ORDER BY name, workspace LIMIT ?5 + 0",
	selectPauses: "SELECT " + pauseAll + " FROM queue_pause WHERE (?1 = '' OR workspace = ?1) AND (?2 = '' OR queue = ?2) AND id < ?3 ORDER BY id DESC LIMIT ?4 + 0",
	selectLastingPauses: "SELECT " + pauseAll + " FROM queue_pause INDEXED BY queue_pause_queue WHERE state = 'paused'" +
		" AND (?1 = '' OR workspace = ?1) AND (?2 = '' OR queue = ?2) AND id < ?3 ORDER BY id DESC LIMIT ?4 + 0",
	selectTokenBySum: "SELECT " + tokenAll + " FROM token INDEXED BY token_name WHERE state = 'active' AND sum = ? ORDER BY id DESC LIMIT 1",
	selectTokens:     "SELECT " + tokenAll + " FROM token WHERE id < ? ORDER BY id DESC LIMIT ? + 0",
	selectWebhooks:   "SELECT " + webhookAll + " FROM webhook WHERE id < ? ORDER BY id DESC LIMIT ? + 0",
	selectVersions:   "SELECT " + versionColumns + " FROM version WHERE workspace = ? AND name = ? AND version < ? ORDER BY version DESC LIMIT ? + 0",
	selectNewestVersions: "SELECT " + versionColumns + " FROM version v WHERE (?1 = '' OR workspace = ?1)" +
		" AND version = (SELECT max(version) FROM version WHERE workspace = v.workspace AND name = v.name)" +
		" AND (name, workspace) > (?2, ?3) ORDER BY name, workspace LIMIT ?4 + 0",
	selectDefinition: "SELECT " + definitionColumns + " FROM definition WHERE id = ?",
	selectStepTrail:  "SELECT " + trailColumns + " FROM audit WHERE job = ? AND ord <= ?",
	selectJobTrail: "SELECT " + trailColumns + " FROM audit WHERE job = ?1 AND ord = 0 AND" +
		" seq >= ifnull((SELECT max(seq) FROM audit WHERE job = ?1 AND ord = 0 AND seq <= ?2), 0) ORDER BY seq LIMIT ?3 + 0",
	selectWorkerTrail:   "SELECT " + entryColumns + " FROM worker_audit WHERE worker = ? AND seq >= ? ORDER BY seq LIMIT ? + 0",
	selectScheduleTrail: "SELECT " + entryColumns + " FROM schedule_audit WHERE schedule = ? AND seq >= ? ORDER BY seq LIMIT ? + 0",
	selectPauseTrail:    "SELECT " + entryColumns + " FROM queue_pause_audit WHERE queue_pause = ? AND seq >= ? ORDER BY seq LIMIT ? + 0",
	selectTokenTrail:    "SELECT " + entryColumns + " FROM token_audit WHERE token = ? AND seq >= ? ORDER BY seq LIMIT ? + 0",
	selectWebhookTrail:  "SELECT " + entryColumns + " FROM webhook_audit WHERE webhook = ? AND seq >= ? ORDER BY seq LIMIT ? + 0",
	selectJobID:         "SELECT uuid FROM job WHERE id = ?",
	selectWorkerID:      "SELECT uuid FROM worker WHERE id = ?",
	selectScheduleID:    "SELECT uuid FROM schedule WHERE id = ?",
	selectTokenID:       "SELECT uuid FROM token WHERE id = ?",
	selectPauseID:       "SELECT uuid FROM queue_pause WHERE id = ?",
	selectWebhookID:     "SELECT uuid FROM webhook WHERE id = ?",
	selectNextJob: "SELECT min(k) FROM (SELECT min(id) AS k FROM job WHERE id > ?1" +
		" UNION ALL SELECT min(job) FROM audit WHERE job > ?1 UNION ALL SELECT min(job) FROM step WHERE job > ?1)",
	selectNextWorker: "SELECT min(k) FROM (SELECT min(id) AS k FROM worker WHERE id > ?1" +
		" UNION ALL SELECT min(worker) FROM worker_audit WHERE worker > ?1)",
	selectNextSchedule: "SELECT min(k) FROM (SELECT min(id) AS k FROM schedule WHERE id > ?1" +
		" UNION ALL SELECT min(schedule) FROM schedule_audit WHERE schedule > ?1)",
	selectNextPause: "SELECT min(k) FROM (SELECT min(id) AS k FROM queue_pause WHERE id > ?1" +
		" UNION ALL SELECT min(queue_pause) FROM queue_pause_audit WHERE queue_pause > ?1)",
	selectNextToken: "SELECT min(k) FROM (SELECT min(id) AS k FROM token WHERE id > ?1" +
		" UNION ALL SELECT min(token) FROM token_audit WHERE token > ?1)",
	selectNextWebhook: "SELECT min(k) FROM (SELECT min(id) AS k FROM webhook WHERE id > ?1" +
		" UNION ALL SELECT min(webhook) FROM webhook_audit WHERE webhook > ?1)",
	selectHistory:       "SELECT " + trailColumns + " FROM audit WHERE job = ? AND (at, ord, seq) > (?, ?, ?) ORDER BY at, ord, seq LIMIT ? + 0",
	selectTrailPage:     "SELECT " + trailColumns + " FROM audit WHERE job = ? AND (ord, seq) > (?, ?) ORDER BY ord, seq LIMIT ?",
	selectJobSeq:        "SELECT seq FROM job WHERE id = ?",
	selectStepSeq:       "SELECT seq FROM step WHERE job = ? AND ord = ?",
	replaceAnchor:       strings.Replace(insert("anchor", anchorColumns), "INSERT", "INSERT OR REPLACE", 1),
	removeJob:           "DELETE FROM job WHERE id = ?",
	removeSteps:         removeSome("step", "job, ord"),
	removeTrails:        removeSome("audit", "job, ord, seq"),
	removeSignals:       removeSome("signal", "job, seq"),
	removeRefusals:      removeSome("refusal", "id"),
	insertRemoval:       "INSERT OR IGNORE INTO removal (job) VALUES (?)",
	removeRemoval:       "DELETE FROM removal WHERE job = ?",
	selectKeyAfter:      "SELECT max(id) FROM (SELECT id FROM job WHERE id > ? ORDER BY id LIMIT ? + 0)",
	selectUnstarted:     "SELECT " + jobHot + " FROM job NOT INDEXED WHERE id > ? AND id <= ? AND state = 'PENDING' AND paused = 0 ORDER BY id",
	selectHeldSchedules: "SELECT id FROM schedule WHERE state = 'active' AND (due_at <= 0 OR waiting <> 0) AND id > ? ORDER BY id LIMIT ? + 0",
	selectRemoval:       "SELECT job FROM removal WHERE job BETWEEN ? AND ? AND NOT EXISTS (SELECT 1 FROM job WHERE id = removal.job) ORDER BY job LIMIT 1",
	removeWorker:        "DELETE FROM worker WHERE id = ?",
	removeWorkerTrail:   "DELETE FROM worker_audit WHERE worker = ?",
	removeTurn:          "DELETE FROM remote WHERE worker = ?",
	removeSchedule:      "DELETE FROM schedule WHERE id = ?",
	removeScheduleTrail: "DELETE FROM schedule_audit WHERE schedule = ?",
	removeToken:         "DELETE FROM token WHERE id = ?",
	removeWebhook:       "DELETE FROM webhook WHERE id = ?",
	removeTokenTrail:    "DELETE FROM token_audit WHERE token = ?",
	removePause:         "DELETE FROM queue_pause WHERE id = ?",
	removePauseTrail:    "DELETE FROM queue_pause_audit WHERE queue_pause = ?",
	removeWebhookPlace:  "DELETE FROM webhook_place WHERE webhook = ?",
	removeDeliveries:    "DELETE FROM webhook_delivery WHERE webhook = ?",
	removeWebhookTrail:  "DELETE FROM webhook_audit WHERE webhook = ?",
	selectOldJobs:       oldOnes("job", oldJob+" AND NOT "+neededJob),
	selectOldJob:        oldOne("job", oldJob+" AND NOT "+neededJob),
	selectOldWorkers:    oldOnes("worker", oldWorker),
	selectOldWorker:     oldOne("worker", oldWorker),
	selectOldSchedules:  oldOnes("schedule", oldSchedule),
	selectOldSchedule:   oldOne("schedule", oldSchedule),
	selectOldTokens:     oldOnes("token", oldToken),
	selectOldWebhooks:   oldOnes("webhook", oldWebhook),
	selectOldToken:      oldOne("token", oldToken),
	selectOldPauses:     oldOnes("queue_pause", oldPause),
	selectOldPause:      oldOne("queue_pause", oldPause),
	selectOldWebhook:    oldOne("webhook", oldWebhook),
	selectHeads:         "SELECT seq, head FROM step WHERE job = ? ORDER BY ord",
	selectSealed:        "SELECT substr(seals, 1, 1) = x'02' FROM audit WHERE job = ? AND ord = 0 AND seq = 1",
	selectAnchors:       "SELECT " + anchorColumns + " FROM anchor ORDER BY kind, seq",
	selectNewestAnchors: "SELECT " + anchorColumns + " FROM anchor WHERE kind = ? ORDER BY seq DESC LIMIT 2",
	countOldJobs: "SELECT count(*) FILTER (WHERE " + oldJob + " AND NOT " + neededJob + "), count(*) FILTER (WHERE " + jobsOpen + ")," +
		" count(*) FILTER (WHERE " + oldJob + " AND " + neededJob + ") FROM job o WHERE id < ?2",
	countOldWorkers:   "SELECT count(*) FILTER (WHERE " + oldWorker + "), count(*) FILTER (WHERE " + living + "), 0 FROM worker o WHERE id < ?2",
	countOldSchedules: "SELECT count(*) FILTER (WHERE " + oldSchedule + "), count(*) FILTER (WHERE state <> 'removed'), 0 FROM schedule o WHERE id < ?2",
	countOldPauses:    "SELECT count(*) FILTER (WHERE " + oldPause + "), count(*) FILTER (WHERE state = 'paused'), 0 FROM queue_pause o WHERE id < ?2",
	countOldTokens:    "SELECT count(*) FILTER (WHERE " + oldToken + "), count(*) FILTER (WHERE state = 'active'), 0 FROM token o WHERE id < ?2",
	countOldWebhooks:  "SELECT count(*) FILTER (WHERE " + oldWebhook + "), count(*) FILTER (WHERE state <> 'deleted'), 0 FROM webhook o WHERE id < ?2",

	countRefusals:         "SELECT count(*) FROM refusal WHERE ?1 = 0 OR job = ?1",
	selectSignalData:      "SELECT seq, data FROM signal WHERE job = ? AND seq > ? ORDER BY seq",
	selectJobPayload:      payloadOf(lifecycle.Job.Name, "tree", "id = ?"),
	selectStepPayload:     payloadOf(lifecycle.Step.Name, "tree", "job = ? AND ord = ?"),
	selectSchedulePayload: payloadOf(lifecycle.Schedule.Name, "NULL", "id = ?"),

	selectRefusals: "SELECT id, " + refusalColumns + " FROM refusal WHERE job = ? AND (at, id) > (?, ?) ORDER BY at, id LIMIT ? + 0",

	insertChunk:   "INSERT OR REPLACE INTO chunk (job, ord, claim, stream, off, at, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
	removeChunks:  removeSome("chunk", "rowid"),
	selectNextLog: "SELECT job FROM chunk WHERE job > ? AND job <= ? ORDER BY job LIMIT 1",
	selectChunks: "SELECT ord, claim, stream, off, at FROM chunk" +
		" WHERE job = ?1 AND ord <= ?2 AND (ord, claim, at, off, stream) > (?3, ?4, ?5, ?6, ?7) ORDER BY ord, claim, at, off, stream LIMIT ?8 + 0",
	selectChunk: "SELECT data FROM chunk WHERE job = ? AND ord = ? AND claim = ? AND stream = ? AND off = ?",
}

// removeSome returns the statement that removes a limited number of rows of a job.
func removeSome(table, key string) string {
	return fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE job = ?1 LIMIT ?2 + 0)", table, key)
}

func payloadOf(table, tree, key string) string {
	return "SELECT seq, " + tree + ", " + strings.Join(store.PayloadColumns(table), ", ") + " FROM " + table + " WHERE " + key
}

// prefixed names the columns of a list with their table.
func prefixed(table, columns string) string {
	return table + "." + strings.ReplaceAll(columns, ", ", ", "+table+".")
}

func insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (?" + strings.Repeat(", ?", strings.Count(columns, ",")) + ")"
}

// insertRows is insert for n rows at once. On a failure the rows before it stay, since the
// transaction ends anyway: otherwise SQLite would copy each page first.
func insertRows(table, columns string, n int) string {
	one := strings.Replace(insert(table, columns), "INSERT", "INSERT OR FAIL", 1)
	row := one[strings.LastIndex(one, "("):]
	return one + strings.Repeat(", "+row, n-1)
}

// A bulk is a statement that inserts a number of rows at once.
type bulk struct {
	statement
	rows int
}

// Bulks, largest first. Values that repeat in each turn are bound already.
var (
	jobBulks   = []bulk{{insertJob32, 32}, {insertJob8, 8}, {insertJob, 1}}
	stepBulks  = []bulk{{insertStep32, 32}, {insertStep8, 8}, {insertStep, 1}}
	auditBulks = []bulk{{insertAudit32, 32}, {insertAudit8, 8}, {insertAudit, 1}}
)
