package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// prepareOn prepares a statement on a connection, unless it is.
func prepareOn(t *testing.T, conn *pgxpool.Conn, s *statement) {
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

// TestAllStatementsAreListed: so that TestPlansUseIndexes sees the plan of each.
func TestAllStatementsAreListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, s := range statements {
		listed[s.name] = true
	}
	for _, name := range []string{"lock_keys", "take_locked"} { // of transactions of users (joined.go)
		listed[name] = true
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bstatement\{"(\w+)",`).FindAllSubmatch(text, -1) {
			if found++; !listed[string(m[1])] && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s: statement %s is not listed in statements_test.go", file, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d statements in the source, want more", found)
	}
}

// statements are all statements of write transactions.
var statements = append(alone(append(newFewEntries[1:], verifyWorker, newAnswer, newRunning, newJob, newStep, newFed, moveJobs.alone, countJobs.alone, takeSteps.alone, endSteps.alone, spreadSteps.alone)...),
	begin, rollback, commit, now,
	lockPools, countPools, limitWait, takeKeys, waitOn, limitRecalled, inReading, readKeys, readQuotas, readSchedules, readTokens, readPauses, readWebhooks, readWorkers, watchWorkers, readTurns, readJobs, readUnlocked, readVersions, readSignals, countSignals,
	readSteps, readNamed, readAhead, claimOne, claimMany, claimLone,
	newDefinitions, newWorkers, newJobs, newSteps, setWorkers, setJobs, setSteps,
	moveJobs.read, countJobs.read, startJobs.read, finishJobs.read, startSteps.read, finishSteps.read, takeSteps.read, endSteps.read, moveSteps.read, spreadSteps.read, moveJobs.known, countJobs.known, startJobs.known, finishJobs.known, startSteps.known, finishSteps.known, takeSteps.known, endSteps.known, moveSteps.known,
	verifyWorkers, verifyJobs, verifySteps, stamped,
	newSchedules, setSchedules, newTokens, setTokens, newPauses, setPauses, newWebhooks, setWebhooks, newVersions, setQuotas, dropQuotas, readReservations, newReservations, dropReservations, newSignals, setTaken, setTurns,
	newEntries, newWorkerRows, newScheduleRows, newTokenRows, newPauseRows, newWebhookRows, newRefusals, setAnswers, newAnswers, dropKeys,
	agenda, beginWhole, wholeJob, wholeCount, wholeKin, wholeSteps, wholeTrail,
	tidy,
	newChunks, lazily,
)
