package privatejob

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// A killed process's lock is held a little longer by a child that has not run its
// program yet: whoever resumes the job waits for it. One that lives is not waited
// for.
func TestALockThatOutlivesItsProcessIsWaitedFor(t *testing.T) { // J9, T10
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	theirs, ours := openHolds(t, path), openHolds(t, path)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	id := pawl.MakeID(time.Now(), 1, 1)
	for _, c := range []struct {
		name  string
		pid   int
		taken bool
	}{{"dead", ended.Process.Pid, true}, {"alive", os.Getpid(), false}} {
		release, err := theirs.Hold(t.Context(), holdName(id), holderNote(t, c.pid))
		if err != nil {
			t.Fatal(err)
		}
		freed := time.AfterFunc(20*holdAgain, release)
		free, err := hold(t.Context(), ours, id)
		if (err == nil) != c.taken {
			t.Errorf("%s: got %v, want it taken: %v", c.name, err, c.taken)
		}
		if err == nil {
			free()
		}
		if freed.Stop() {
			release()
		}
	}
}

func holderNote(t *testing.T, pid int) []byte {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	note, err := json.Marshal(holder{pid, host})
	if err != nil {
		t.Fatal(err)
	}
	return note
}

func openHolds(t *testing.T, path string) store.Store {
	t.Helper()
	db, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
