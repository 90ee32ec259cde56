package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"bufio"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// How long and how many results are kept.
const (
	keepFor  = 24 * time.Hour
	keepMost = 100
	// keepTrails is how many trails are kept. The oldest go.
	keepTrails = 1000
)

const partial = ".partial" // in the name of a result whose run has not ended

// A recording is the result of a run that is on: a file of records, which ends with the Result.
type recording struct {
	path string
	f    *os.File
	sum  hash.Hash
	size int64

	intervals int      // that were added
	had       recorded // what the file had when it was resumed
}

// recorded is what the records of a file add up to.
type recorded struct {
	totals  stats.Table // without the warm-up, like the seconds
	seconds float64
	usage   [2]float64     // user and system seconds
	last    *loadpb.Result // nil: the file does not end with a Result
}

// add adds a record. It reports whether it is one that this agent has written there.
func (h *recorded) add(m *loadpb.ResultRecord) bool {
	i := m.GetInterval()
	switch {
	case h.last != nil:
		return false
	case i == nil:
		h.last = m.GetResult()
		return h.last != nil
	case i.GetWarmup():
	case h.totals.Add(i.GetOperations()) != nil:
		return false
	default:
		h.seconds += float64(i.GetEndNs()-i.GetStartNs()) / 1e9
	}
	h.usage[0] += i.GetCpuUserSeconds()
	h.usage[1] += i.GetCpuSystemSeconds()
	return true
}

// record begins the result of a run.
func (a *Agent) record(run string) (*recording, error) {
	path := filepath.Join(a.results(), run)
	f, err := os.OpenFile(path+partial, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &recording{path: path, f: f, sum: sha256.New()}, nil
}

// resume goes on with the result of a run whose agent died. A torn last record is cut off.
func (a *Agent) resume(run string) (*recording, error) {
	path := filepath.Join(a.results(), run)
	f, err := os.OpenFile(path+partial, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	r := &recording{path: path, f: f, sum: sha256.New(), had: recorded{totals: stats.Table{}}}
	r.size, err = wholeRecords(f, r.had.add)
	if err == nil {
		err = f.Truncate(r.size)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = io.Copy(r.sum, f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// wholeRecords calls each with the whole records of a file until it returns false, and returns how
// many bytes those have for which it has returned true.
func wholeRecords(f io.Reader, each func(*loadpb.ResultRecord) bool) (int64, error) {
	counted := &counter{r: f}
	in := bufio.NewReader(counted)
	whole := int64(0)
	for {
		m := new(loadpb.ResultRecord)
		if err := (protodelim.UnmarshalOptions{MaxSize: maxFrame}).UnmarshalFrom(in, m); err != nil || !each(m) {
			return whole, counted.failed
		}
		whole = counted.n - int64(in.Buffered())
	}
}

// A counter counts what is read, and keeps an error that is not the end.
type counter struct {
	r      io.Reader
	n      int64
	failed error
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed = err
	}
	return n, err
}

// add appends an interval. It is not synced.
func (r *recording) add(i *loadpb.Interval) error {
	r.intervals++
	return r.append(&loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: i}})
}

func (r *recording) append(m *loadpb.ResultRecord) error {
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, m); err != nil {
		return err
	}
	if _, err := r.f.WriteAt(b.Bytes(), r.size); err != nil {
		return err // what was written is overwritten, or cut off
	}
	r.size += int64(b.Len())
	r.sum.Write(b.Bytes())
	return nil
}

// finish ends the result, and returns its hash and size once it is on the disk under its name.
func (r *recording) finish(last *loadpb.Result) (sum []byte, size int64, err error) {
	if err := r.append(&loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: last}}); err != nil {
		return nil, 0, errors.Join(err, r.f.Close())
	}
	return r.publish()
}

// publish does the same for a recording that has its Result.
func (r *recording) publish() (sum []byte, size int64, err error) {
	defer r.f.Close()
	if err = r.f.Truncate(r.size); err == nil {
		err = r.f.Sync()
	}
	if err == nil {
		err = os.Rename(r.path+partial, r.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(r.path))
	}
	return r.sum.Sum(nil), r.size, err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// kept returns the ids of the runs whose results are kept, the newest first.
func (a *Agent) kept() []string { return newest(a.results(), "") }

// newest returns the names of the files in a folder without a suffix that they all have, the
// last changed first.
func newest(dir, suffix string) []string {
	type file struct {
		name string
		at   time.Time
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var files []file
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if info, err := e.Info(); ok && err == nil && runPattern.MatchString(name) {
			files = append(files, file{name, info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return strings.Compare(b.name, a.name)
	})
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	return names
}

// sweep removes results that are too old or too many, those that nobody will end, and the oldest of
// too many trails.
func (a *Agent) sweep() {
	for i, run := range a.kept() {
		path := filepath.Join(a.results(), run)
		if info, err := os.Stat(path); err == nil && (i >= keepMost || a.now().Sub(info.ModTime()) > keepFor) {
			a.remove(path)
		}
	}
	for _, run := range newest(a.results(), partial) {
		path := filepath.Join(a.results(), run+partial)
		_, job := os.Stat(a.folder(run))
		if info, err := os.Stat(path); err == nil && errors.Is(job, fs.ErrNotExist) && a.now().Sub(info.ModTime()) > keepFor {
			a.remove(path)
		}
	}
	if runs := newest(a.trails(), ".jsonl"); len(runs) > keepTrails {
		for _, run := range runs[keepTrails:] {
			a.remove(filepath.Join(a.trails(), run+".jsonl"))
		}
	}
}

func (a *Agent) remove(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.config.Log.Warn("what is too old cannot be removed", "path", path, "error", err)
	}
}

// storageCode returns the code of an error of the state folder.
func storageCode(err error) loadpb.ErrorCode {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return loadpb.ErrorCode_ERROR_CODE_NO_SPACE
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return loadpb.ErrorCode_ERROR_CODE_PERMISSION
	default:
		return loadpb.ErrorCode_ERROR_CODE_IO
	}
}

// codeName returns a code as logs and metrics have it: io, no_space.
func codeName(c loadpb.ErrorCode) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "ERROR_CODE_"))
}

// text returns a text as messages can have it, which are UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "�") }

// copyOf returns a message that may be changed.
func copyOf(m *loadpb.LiveStats) *loadpb.LiveStats { return proto.Clone(m).(*loadpb.LiveStats) }

var errNoResult = fmt.Errorf("no result of that run: it is unknown, still on, or older than %s", keepFor)
