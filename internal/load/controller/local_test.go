package controller

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// TestKilledAgents: the state of a local agent that was killed stays, since it says what is to be
// deleted, unless all of its files are removed anyway (L5).
func TestKilledAgents(t *testing.T) {
	t.Parallel()
	killed := &KilledError{Names: []string{"local-2"}, After: time.Second}
	for _, tt := range []struct {
		root    string
		stopped error
		stays   bool
	}{{"/mnt/data", killed, true}, {"DIR/root", killed, false}, {"/mnt/data", nil, false}} {
		scratch, err := durable.NewScratch(t.TempDir(), "dir-*")
		if err != nil {
			t.Fatal(err)
		}
		dir := scratch.Path
		err = clearLocal(scratch, strings.Replace(tt.root, "DIR", dir, 1), tt.stopped)
		if _, gone := os.Stat(dir); tt.stays != (gone == nil) || (tt.stopped == nil) != (err == nil) {
			t.Errorf("root %q: stays %t, want %t; %v", tt.root, gone == nil, tt.stays, err)
		}
		var refused *pawl.Error
		if tt.stays && (!errors.As(err, &refused) || !strings.HasSuffix(refused.Hint, ": pawl agent --state-dir "+dir+"/local-2/state --root /mnt/data")) {
			t.Errorf("%v", err)
		}
	}
}
