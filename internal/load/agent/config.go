package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

// Config is what an agent is. The fields without a default are required.
type Config struct {
	ID       string   // 1 to 64 letters, digits, '.', '_' and '-'
	StateDir string   // of this agent alone; it is created
	Roots    []Root   // the folders that runs may use; at least one, unless there are Stores
	Stores   []Root   // the parts of buckets that runs may use, each with the URL of an s3.Location as its path
	Engine   []string // the command line of the engine
	Build    string   // name and version, for people

	// Token is what callers have to show, unless they have a certificate that TLS has verified.
	// Empty: whoever reaches a listener without TLS may do everything.
	Token string

	// Plan says what a job would create, and why it cannot be done. nil: nobody does.
	Plan func(context.Context, workload.Job) (*loadpb.Plan, []*loadpb.Error)

	// Clock is the agent's clock. Default: time.Now.
	Clock func() time.Time

	// Ready is called when Serve has cleaned up after an agent that was killed, and serves. It may be nil.
	Ready func()

	Log   *slog.Logger // default: none
	Hooks Hooks        // for metrics; each may be nil
}

// A Root is a folder or a part of a bucket that runs may use, with everything beneath it.
type Root struct {
	Path  string // absolute; of a part of a bucket its URL
	Bytes uint64 // that a run may have in it at once; 0: no limit
	Files uint64 // likewise
}

// Hooks are called as things happen, from several goroutines.
type Hooks struct {
	Left     func(state string, after time.Duration) // a run has left a state
	Ended    func(state, code string)                // a run has ended; code is empty unless it is an error
	Failures func(class string, n uint64)            // operations have failed
	// Objects is called with the requests of an operation to an object store in an interval: how long it took until the
	// first byte of the contents that were read was there, nil for none, and how many were tried again.
	Objects func(operation string, firstByte *histogram.Histogram, retries uint64)
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// runPattern is what ids of runs look like. They are names of files.
var runPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func (c *Config) validate() error {
	switch {
	case !idPattern.MatchString(c.ID):
		return pawl.Errorf(pawl.Invalid, "the id of the agent is %q; want 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first", c.ID)
	case !filepath.IsAbs(c.StateDir):
		return pawl.Errorf(pawl.Invalid, "the state folder is %q; want an absolute path", c.StateDir)
	case !utf8.ValidString(c.StateDir):
		return pawl.Errorf(pawl.Invalid, "the state folder is %q; want a path in UTF-8", c.StateDir)
	case len(c.Engine) == 0:
		return pawl.Errorf(pawl.Invalid, "the command line of the engine is empty")
	case len(c.Roots) == 0 && len(c.Stores) == 0:
		return pawl.Errorf(pawl.Invalid, "no root: want at least one folder, or one part of a bucket, that runs may use")
	}
	for _, s := range c.Stores {
		if _, err := s3.ParseLocation(s.Path); err != nil {
			return pawl.Errorf(pawl.Invalid, "object store %q: %v", s.Path, err)
		}
	}
	for _, r := range c.Roots {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func (r Root) check() error {
	if !filepath.IsAbs(r.Path) {
		return pawl.Errorf(pawl.Invalid, "root %q: want an absolute path", r.Path)
	}
	if !utf8.ValidString(r.Path) {
		return pawl.Errorf(pawl.Invalid, "root %q: want a path in UTF-8", r.Path)
	}
	switch info, err := os.Stat(r.Path); {
	case err != nil:
		return &pawl.Error{Kind: pawl.Invalid, Message: "root " + r.Path, Err: err, Hint: "create it with: mkdir -p " + r.Path}
	case !info.IsDir():
		return pawl.Errorf(pawl.Invalid, "root %s: want a folder", r.Path)
	}
	return nil
}

func (c *Config) setDefaults() {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Ready == nil {
		c.Ready = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Hooks.Left == nil {
		c.Hooks.Left = func(string, time.Duration) {}
	}
	if c.Hooks.Ended == nil {
		c.Hooks.Ended = func(string, string) {}
	}
	if c.Hooks.Failures == nil {
		c.Hooks.Failures = func(string, uint64) {}
	}
	if c.Hooks.Objects == nil {
		c.Hooks.Objects = func(string, *histogram.Histogram, uint64) {}
	}
}
