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
	path  string
	lock  *durable.Lock
	live  *os.File
	feed  Feed
	trail *trail
	abort chan string // 1: it waits until the run takes it
	stop  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex // guards request
	request *Request
}

// Open begins the journal of a run. It is an error of kind pawl.Conflict if there is one for that
// result, of a run that is on or whose controller has died.
func Open(c Config) (_ *Journal, err error) {
	c.Dir = filepath.Clean(c.Dir)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Info.Host, _ = os.Hostname() // for people
	c.Info.PID, c.Info.Name, c.Info.Begun = os.Getpid(), c.Test.Name, time.Now().UTC()
	parent := filepath.Dir(c.Dir)
	work, err := os.MkdirTemp(parent, ".pawl-journal-")
	if err != nil {
		return nil, err
	}
	j := &Journal{Config: c, path: filepath.Join(parent, NameOf(filepath.Base(c.Dir))), abort: make(chan string, 1), stop: make(chan struct{})}
	if err = j.make(work); err == nil {
		err = j.publish(work)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	j.feed = Feed{Name: c.Test.Name, Lines: NewLines(&bounded{to: j.live})}
	j.trail = newTrail(c.Info.Run, c.Info.Actor, filepath.Join(j.path, trailName))
	j.wg.Go(j.watch)
	return j, nil
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
	j.lock, err = durable.TryAcquire(filepath.Join(work, lockFile))
	return err
}

// publish gives the folder its name, unless another one has it.
func (j *Journal) publish(work string) error {
	err := os.Rename(work, j.path)
	if err == nil {
		return nil
	}
	_ = j.live.Close() // nothing was written
	j.lock.Release()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if held, _ := durable.Held(filepath.Join(j.path, lockFile)); held {
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("a run that is on writes its result to %s", j.Dir), Hint: "each run has a folder of its own"}
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the controller of a run that was to write %s has died", j.Dir),
		Hint: fmt.Sprintf("what is known of that run is in %s: remove it, or name another folder", j.path)}
}

// Changed is for controller.Config, and so are Interval, Moved and Abort.
func (j *Journal) Changed(v controller.View) {
	j.feed.Changed(v)
	j.trail.changed(v, j.requested())
}

// Interval takes what was done in an interval.
func (j *Journal) Interval(i controller.Interval) { j.feed.Interval(i) }

// Moved takes a transition of an agent.
func (j *Journal) Moved(agent int, t *loadpb.Transition) { j.trail.moved(agent, t) }

// Abort receives the reason of a request to end the run.
func (j *Journal) Abort() <-chan string { return j.abort }

// Ended takes the end of the run, adds its trail to it, and waits until all of that is on the disk.
// What could not be written is logged: the trail in the run has everything.
func (j *Journal) Ended(run *report.Run) {
	j.trail.ended(run)
	run.Trail = bytes.Clone(j.trail.rows)
	if err := j.trail.lines.Close(); err != nil {
		j.Log.Warn("the trail of a run could not be written while it was on", "run", j.Info.Run, "error", err)
	}
}

// Kept says how the run has ended, to whoever follows it, once its result is in a folder. Without a
// folder there is none.
func (j *Journal) Kept(run *report.Run, folder string) {
	if folder != "" {
		folder = filepath.Base(folder)
	}
	j.feed.Lines.Put(EndLine{TypeEnd, time.Now(), run.ID, run.Outcome, run.Reason, folder}, false)
}

// Close removes the journal: the result takes its place, or there is nothing to keep. It returns
// what kept lines from being written.
func (j *Journal) Close() error {
	close(j.stop)
	j.wg.Wait()
	_ = j.trail.lines.Close() // Ended has logged it
	err := errors.Join(j.feed.Lines.Close(), j.live.Close(), os.RemoveAll(j.path))
	j.lock.Release()
	return err
}

// watch waits for a request to end the run.
func (j *Journal) watch() {
	tick := time.NewTicker(abortEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-tick.C:
		}
		r, err := readRequest(filepath.Join(j.path, abortFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			j.Log.Warn("the request to end a run cannot be read", "run", j.Info.Run, "error", err)
		default:
			j.mu.Lock()
			j.request = r
			j.mu.Unlock()
			j.abort <- r.text()
			return
		}
	}
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Request{}
	return r, json.NewDecoder(io.LimitReader(f, maxAbort)).Decode(r)
}

// A bounded writer leaves out what is more than maxLive, but for lines that say what a run or an agent
// is.
type bounded struct {
	to io.Writer
	n  int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.n += int64(len(p)); b.n > maxLive && (typeOf(p) == TypeInterval || typeOf(p) == TypeProgress) {
		return len(p), nil
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
