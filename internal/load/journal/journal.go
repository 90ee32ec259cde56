package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// The files of a journal.
const (
	runFile    = "run.json"
	configFile = "config.yaml"
	liveFile   = "live.ndjson"
	trailName  = "trail.jsonl"
	abortFile  = "abort.json"
	lockFile   = "lock"
	agentsDir  = "agents"
)

// The name of a journal is that of its result with these around it.
const (
	prefix = "."
	suffix = ".live"
)

// NameOf returns the name of the journal of the result with a name.
func NameOf(result string) string { return prefix + result + suffix }

// ResultOf returns the name of the result that a folder is the journal of, or "" if it is none.
func ResultOf(name string) string {
	result, is := strings.CutSuffix(strings.TrimPrefix(name, prefix), suffix)
	if !is || name != NameOf(result) {
		return ""
	}
	return result
}

const (
	abortEvery = 200 * time.Millisecond // between two looks for a request to end the run
	maxAbort   = 64 << 10               // bytes of one
	maxLive    = 1 << 30                // bytes of intervals and progress
)

// An Info says what was begun.
type Info struct {
	Run     string    `json:"run"`
	Name    string    `json:"name"` // of the load
	Begun   time.Time `json:"begun"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Actor   string    `json:"actor"`
	Program string    `json:"program"` // and its version
}

// A Request asks for the end of a run.
type Request struct {
	Actor     string    `json:"actor"`
	Reason    string    `json:"reason,omitempty"`
	RequestID string    `json:"request_id,omitempty"`
	At        time.Time `json:"at"`
}

// A Config is what a Journal needs.
type Config struct {
	Dir    string // the folder that the result is to be
	Info   Info
	Config []byte // the load file
	Test   *spec.Test
	Log    *slog.Logger // default: none
}

// A Journal is the journal of one run. Its methods are of the goroutine that runs the load.
type Journal struct {
	Config
	// Unwritten is why nothing is written, and nobody else sees the run. Nil: all is.
	Unwritten error

	path  string // empty: nothing is written
	lock  *durable.Lock
	live  *os.File
	feed  Feed
	trail *trail
	abort chan string // 1: it waits until the run takes it
	stop  chan struct{}
	wg    sync.WaitGroup
	owed  bool // it is all that is known of the run: Close keeps it

	apart error // why it has no intervals of each agent; of the goroutine that calls Recorded

	mu      sync.Mutex // guards request
	request *Request
}

// workPattern is that of the folders that become journals.
const workPattern = ".pawl-journal-*"

// Open begins the journal of a run. It is an error of kind pawl.Conflict if there is one for that
// result, of a run that is on or whose controller has died. Other errors are Unwritten: the run does
// without a journal.
func Open(c Config) (*Journal, error) {
	c.Dir = filepath.Clean(c.Dir)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Info.Host, _ = os.Hostname() // for people
	c.Info.PID, c.Info.Name, c.Info.Begun = os.Getpid(), c.Test.Name, time.Now().UTC()
	j := &Journal{Config: c, abort: make(chan string, 1), stop: make(chan struct{})}
	live, trail := io.Writer(io.Discard), io.Writer(io.Discard)
	err := j.begin()
	switch {
	case pawl.KindOf(err) == pawl.Conflict:
		return nil, err
	case err != nil:
		j.Unwritten = fmt.Errorf("nobody else can follow or end the run: its journal could not be written: %w", err)
		j.Log.Warn("the run has no journal: nobody else can follow or end it", "run", c.Info.Run, "error", err)
	default:
		live, trail = &bounded{to: j.live, most: maxLive}, &trailFile{path: filepath.Join(j.path, trailName)}
		j.wg.Go(j.watch)
	}
	j.feed = Feed{Name: c.Test.Name, Lines: NewLines(live)}
	j.trail = newTrail(c.Info.Run, c.Info.Actor, trail, j.Log)
	return j, nil
}

// begin makes the folder of the journal. What others have left beside it, who were killed, is removed.
func (j *Journal) begin() error {
	parent := filepath.Dir(j.Dir)
	durable.SweepScratch(parent, workPattern, nil)
	sweep(parent)
	work, err := durable.NewScratch(parent, workPattern)
	if err != nil {
		return err
	}
	if err = j.make(work.Path); err == nil {
		err = j.publish(work, filepath.Join(parent, NameOf(filepath.Base(j.Dir))))
	}
	if err == nil {
		return nil
	}
	if j.live != nil {
		_ = j.live.Close() // nothing was written
	}
	if j.lock != nil {
		j.lock.Release()
	}
	return errors.Join(err, work.Remove())
}

// make makes the files of the journal in a folder, and holds its lock.
func (j *Journal) make(work string) (err error) {
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(&j.Info)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{runFile: info, configFile: j.Config.Config, trailName: nil} {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o644); err != nil {
			return err
		}
	}
	if j.live, err = os.OpenFile(filepath.Join(work, liveFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	agents := filepath.Join(work, agentsDir)
	if err := errors.Join(os.Mkdir(agents, 0o755), os.Chmod(agents, 0o755)); err != nil {
		return err
	}
	j.lock, err = durable.TryAcquire(filepath.Join(work, lockFile))
	return err
}

// publish gives the folder its name, unless another one has it.
func (j *Journal) publish(work *durable.Scratch, path string) error {
	err := work.Publish(path)
	if err == nil || work.Path == path {
		j.path = path
		return nil // what it could not remove does no harm
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if held, err := durable.Held(filepath.Join(path, lockFile)); held || err != nil {
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("a run that is on writes its result to %s", j.Dir), Hint: "each run has a folder of its own"}
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("a run that was to write %s has no result", j.Dir),
		Hint: fmt.Sprintf("what is known of that run is in %s: remove it, or name another folder", path)}
}

// sweep removes the journals in a folder whose controllers were killed when their results were there.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent) // what cannot be read is not removed
	for _, e := range entries {
		result, dir := ResultOf(e.Name()), filepath.Join(parent, e.Name())
		if result == "" || !e.IsDir() || !sameRun(filepath.Join(dir, runFile), filepath.Join(parent, result, "summary.json")) {
			continue
		}
		if lock, err := durable.TryAcquire(filepath.Join(dir, lockFile)); err == nil && lock != nil {
			_ = remove(dir) // the next one tries again
			lock.Release()
		}
	}
}

// remove removes a journal, its lines first: where they are and the folder of the agents is not, that was never there
// or has failed.
func remove(dir string) error {
	_ = os.Remove(filepath.Join(dir, liveFile)) // RemoveAll has the error
	return os.RemoveAll(dir)
}

// sameRun reports whether a journal and a summary are of one run.
func sameRun(info, summary string) bool {
	var begun Info
	var kept struct {
		Run string `json:"run_id"`
	}
	for path, to := range map[string]any{info: &begun, summary: &kept} {
		f, err := openRegular(func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) })
		if err != nil {
			return false
		}
		err = json.NewDecoder(f).Decode(to)
		if _ = f.Close(); err != nil { // it was only read
			return false
		}
	}
	return begun.Run != "" && begun.Run == kept.Run
}

// Changed is for controller.Config, and so are Interval, Moved, Recorded and Abort.
func (j *Journal) Changed(v controller.View) {
	j.feed.Changed(v)
	j.trail.changed(v, j.requested())
}

// Interval takes what was done in an interval.
func (j *Journal) Interval(i controller.Interval) { j.feed.Interval(i) }

// Moved takes a transition of an agent.
func (j *Journal) Moved(agent int, t *loadpb.Transition) { j.trail.moved(agent, t) }

// Recorded takes the file into which the intervals of an agent are written as they come, and gives it a
// name in the journal as well, which takes no room. A journal that has failed to do so for one agent has the
// intervals of none. It is called by one goroutine, another one than that of the other methods perhaps.
func (j *Journal) Recorded(agent int, file string) {
	if j.path == "" || j.apart != nil {
		return
	}
	agents := filepath.Join(j.path, agentsDir)
	if err := os.Chmod(file, 0o644); err != nil { // as the other files of a journal
		j.apart = err
	} else {
		j.apart = os.Link(file, filepath.Join(agents, recordsName(agent)))
	}
	if j.apart != nil {
		j.Log.Warn("the intervals of each agent can be read once the run has ended, and not while it is on", "run", j.Info.Run, "error", errors.Join(j.apart, os.RemoveAll(agents)))
	}
}

// Abort receives the reason of a request to end the run.
func (j *Journal) Abort() <-chan string { return j.abort }

// Path is the folder of the journal; empty: there is none.
func (j *Journal) Path() string { return j.path }

// Ended takes the end of the run, adds its trail to it, and waits until all of that is on the disk.
// What could not be written is logged: the trail in the run has everything. From now on the journal is
// kept until Kept says that the result is there, if the load has begun, or somebody has asked for its end.
func (j *Journal) Ended(run *report.Run) {
	if j.path != "" && j.requested() == nil {
		j.look() // somebody may have asked too late to be heard
	}
	j.owed = !run.Started.IsZero() || j.requested() != nil
	j.trail.ended(run, j.requested())
	run.Trail = bytes.Clone(j.trail.rows)
	if err := j.trail.lines.Close(); err != nil {
		j.Log.Warn("the trail of a run could not be written while it was on", "run", j.Info.Run, "error", err)
	}
}

// Kept says how the run has ended, to whoever follows it: its result is in a folder, or there is none.
func (j *Journal) Kept(run *report.Run, folder string) {
	if folder != "" {
		folder, j.owed = filepath.Base(folder), false
	}
	j.feed.Lines.Put(EndLine{TypeEnd, time.Now(), run.ID, run.Outcome, run.Reason, folder}, false)
}

// Close removes the journal, unless it is all that there is of the run: the result takes its place, or
// there is nothing to keep. It returns what kept lines from being written.
func (j *Journal) Close() error {
	close(j.stop)
	j.wg.Wait()
	_ = j.trail.lines.Close() // Ended has logged it
	err := j.feed.Lines.Close()
	if j.path == "" {
		return err
	}
	err = errors.Join(err, j.live.Close())
	if !j.owed {
		err = errors.Join(err, remove(j.path))
	}
	j.lock.Release()
	return err
}

// watch waits for a request to end the run.
func (j *Journal) watch() {
	tick := time.NewTicker(abortEvery)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-j.stop:
			return
		case <-tick.C:
		}
		switch r, err := j.look(); {
		case errors.Is(err, fs.ErrNotExist):
		case err == nil:
			j.abort <- r.text()
			return
		case err.Error() != logged:
			logged = err.Error()
			j.Log.Warn("the request to end a run cannot be read", "run", j.Info.Run, "error", err)
		}
	}
}

// look reads the request to end the run.
func (j *Journal) look() (*Request, error) {
	r, err := readRequest(filepath.Join(j.path, abortFile))
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.request = r
	return r, nil
}

func (j *Journal) requested() *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.request
}

// text returns who has asked for the end, and why.
func (r *Request) text() string {
	if r.Reason == "" {
		return "by " + r.Actor
	}
	return "by " + r.Actor + ": " + r.Reason
}

func readRequest(path string) (*Request, error) {
	f, err := openRegular(func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) })
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Request{}
	return r, json.NewDecoder(io.LimitReader(f, maxAbort)).Decode(r)
}

// A bounded writer leaves out what is more than most bytes, but for lines that say what a run or an agent
// is. The next of those comes with one that says how many were left out.
type bounded struct {
	to   io.Writer
	most int64
	n    int64
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.n += int64(len(p)); b.n > b.most && (typeOf(p) == TypeInterval || typeOf(p) == TypeProgress) {
		b.left++
		return len(p), nil
	}
	if b.left > 0 {
		if _, err := b.to.Write(leftOutLine(b.left)); err != nil {
			return 0, err
		}
		b.left = 0
	}
	return b.to.Write(p)
}

// typeOf returns the type of a line: it is the first field of all.
func typeOf(line []byte) string {
	rest, is := bytes.CutPrefix(line, []byte(`{"type":"`))
	name, _, ended := bytes.Cut(rest, []byte(`"`))
	if !is || !ended {
		return ""
	}
	return string(name)
}
