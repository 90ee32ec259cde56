package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// prepare prepares a statement on a connection, unless it is.
func prepare(t *testing.T, conn *pgxpool.Conn, s *statement) {
	t.Helper()
	known := preparedOn(conn.Conn().PgConn())
	if known[s] {
		return
	}
	known[s] = true
	if _, err := conn.Conn().PgConn().Prepare(t.Context(), s.name, s.sql, nil); err != nil {
		t.Fatalf("prepare %s: %v", s.name, err)
	}
}

// statements are all statements of write transactions.
var statements = append(alone(append(newFewEntries[1:], verifyWorker, newRunning, newJob, newStep, newFed, moveJobs.alone, countJobs.alone, takeSteps.alone, endSteps.alone, spreadSteps.alone)...),
	begin, rollback, commit, now,
	lockPools, countPools, limitWait, takeKeys, waitOn, limitRecalled, readKeys, readQuotas, readSchedules, readTokens, readPauses, readWebhooks, readWorkers, watchWorkers, readTurns, readJobs, readUnlocked, readVersions, readSignals, countSignals,
	readSteps, readNamed, readAhead, claimOne, claimMany,
	newDefinitions, newWorkers, newJobs, newSteps, setWorkers, setJobs, setSteps,
	moveJobs.read, countJobs.read, takeSteps.read, endSteps.read, moveSteps.read, spreadSteps.read, moveJobs.known, countJobs.known, takeSteps.known, endSteps.known, moveSteps.known,
	verifyWorkers, verifyJobs, verifySteps, stamped,
	newSchedules, setSchedules, newTokens, setTokens, newPauses, setPauses, newWebhooks, setWebhooks, newVersions, setQuotas, dropQuotas, readReservations, newReservations, dropReservations, newSignals, setTaken, setTurns,
	newEntries, newWorkerRows, newScheduleRows, newTokenRows, newPauseRows, newWebhookRows, newRefusals, setAnswers, dropKeys,
	agenda,
	tidy,
	newChunks, lazily,
)
