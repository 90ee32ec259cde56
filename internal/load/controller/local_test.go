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
		stores  []string
		stopped error
		stays   bool
	}{{"/mnt/data", nil, killed, true}, {"DIR/root", nil, killed, false}, {"DIR/root", []string{"http://host/bucket"}, killed, true}, {"/mnt/data", nil, nil, false}} {
		scratch, err := durable.NewScratch(t.TempDir(), "dir-*")
		if err != nil {
			t.Fatal(err)
		}
		dir := scratch.Path
		root, flags := strings.Replace(tt.root, "DIR", dir, 1), ""
		for _, s := range tt.stores {
			flags += " --s3 '" + s + "'"
		}
		err = clearLocal(scratch, root, tt.stores, tt.stopped)
		if _, gone := os.Stat(dir); tt.stays != (gone == nil) || (tt.stopped == nil) != (err == nil) {
			t.Errorf("root %q: stays %t, want %t; %v", tt.root, gone == nil, tt.stays, err)
		}
		var refused *pawl.Error
		if tt.stays && (!errors.As(err, &refused) || !strings.HasSuffix(refused.Hint, ": pawl agent --state-dir "+dir+"/local-2/state --root "+root+flags)) {
			t.Errorf("%v", err)
		}
	}
}
