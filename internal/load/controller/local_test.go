package controller

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// TestKilledAgents: the state of a local agent that was killed stays, since it says what is to be
// deleted, unless all of its files are removed anyway (L5).
func TestKilledAgents(t *testing.T) {
	t.Parallel()
	killed := &KilledError{Names: []string{"local-2"}, After: time.Second}
	for _, tt := range []struct {
		root    string
		stores  []string
		stopped error
		stays   bool
	}{{"/mnt/data", nil, killed, true}, {"DIR/root", nil, killed, false}, {"DIR/root", []string{"http://host/bucket"}, killed, true}, {"/mnt/data", nil, nil, false}} {
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := clearLocal(dir, strings.Replace(tt.root, "DIR", dir, 1), tt.stores, tt.stopped)
		if _, gone := os.Stat(dir); tt.stays != (gone == nil) || (tt.stopped == nil) != (err == nil) {
			t.Errorf("root %q: stays %t, want %t; %v", tt.root, gone == nil, tt.stays, err)
		}
		var refused *pawl.Error
		if tt.stays && (!errors.As(err, &refused) || refused.Hint != "pawl agent --state-dir "+dir+"/local-2/state "+strings.Join(roots(strings.Replace(tt.root, "DIR", dir, 1), tt.stores), " ")+" deletes them") {
			t.Errorf("%v", err)
		}
	}
}
