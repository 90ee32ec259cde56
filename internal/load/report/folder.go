package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// The files of a result folder, and of an agent's folder in agents.
const (
	configFile  = "config.yaml"
	summaryFile = "summary.json"
	agentsDir   = "agents"
	recordsFile = "result.pb"
	trailFile   = "trail.jsonl"
	liveFile    = "live.pb" // in place of it: the intervals that have come while the agent ran
)

// workPattern is that of the folders that become result folders.
const workPattern = ".pawl-load-*"

// A Folder is a result folder that is being made, beside where it is to be. The records of agents are
// written into it as they come.
type Folder struct {
	dir     string
	scratch *durable.Scratch
}

// NewFolder begins the result folder dir, and removes what those have left beside it who were killed
// while they made one. It is an error of kind pawl.Conflict if dir exists, and of kind pawl.Invalid if its
// file system has no locks (flock). Close is to be called.
func NewFolder(dir string) (*Folder, error) { return newFolder(dir, durable.NewScratch) }

// newFolder is NewFolder with what makes the scratch folder, which fails on a file system without locks.
func newFolder(dir string, newScratch func(in, pattern string) (*durable.Scratch, error)) (*Folder, error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, exists(dir, err)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	durable.SweepScratch(parent, workPattern, nil)
	scratch, err := newScratch(parent, workPattern)
	if err != nil {
		return nil, unlocked(parent, err)
	}
	f := &Folder{dir, scratch}
	if err := os.Mkdir(f.Records(), 0o700); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlocked returns the error of a folder on a file system that refuses locks, or err.
func unlocked(dir string, err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) || at.Op != "flock" || !slices.ContainsFunc([]error{syscall.ENOLCK, syscall.EOPNOTSUPP, syscall.ENOSYS}, func(e error) bool { return errors.Is(err, e) }) {
		return err
	}
	return &pawl.Error{Kind: pawl.Invalid, Message: "the file system of " + dir + " refuses locks (flock), by which others know that a result is being made",
		Hint: "keep results on a local disk, or mount the file system with locks", Err: at.Err}
}

// Records is the folder for the files of records.
func (f *Folder) Records() string { return filepath.Join(f.scratch.Path, "records") }

// Close removes what was not written.
func (f *Folder) Close() error { return f.scratch.Remove() }

// Write writes the result of a run, whose records are in the folder Records and become part of the
// result. The result folder appears with all its files at once. It is an error of kind pawl.Conflict if
// there is one of that name by now.
func (f *Folder) Write(run *Run) (*Report, error) {
	r, err := Evaluate(run)
	if err != nil {
		return nil, err
	}
	work := f.scratch.Path
	if err := r.writeAll(work); err != nil {
		return nil, fmt.Errorf("write the result of run %s: %w", run.ID, err)
	}
	if err := errors.Join(os.RemoveAll(f.Records()), os.Chmod(work, 0o755)); err != nil {
		return nil, err
	}
	if err := f.scratch.Publish(f.dir); err != nil {
		return nil, exists(f.dir, err)
	}
	for i := range run.Agents {
		if a := &run.Agents[i]; a.Records != "" {
			a.Records = filepath.Join(f.dir, agentsDir, r.Summary.Agents[i].Folder, recordsName(a.Live))
		}
	}
	return r, syncDir(filepath.Dir(f.dir))
}

// exists returns the error of a folder that cannot be made: err, or that it is there.
func exists(dir string, err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) {
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("folder %s exists already", dir), Hint: "each run has a folder of its own"}
	}
	return err
}

func (r *Report) writeAll(dir string) error {
	if err := writeFile(filepath.Join(dir, configFile), bytes.NewReader(r.Run.Config)); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, summaryFile), &r.Summary); err != nil {
		return err
	}
	if r.Run.Trail != nil {
		if err := writeFile(filepath.Join(dir, trailFile), bytes.NewReader(r.Run.Trail)); err != nil {
			return err
		}
	}
	if err := r.writeTables(dir); err != nil {
		return err
	}
	if err := r.writeLatencies(filepath.Join(dir, "latencies")); err != nil {
		return err
	}
	for i := range r.Run.Agents {
		if err := r.writeAgent(dir, i); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// writeAgent writes the folder of an agent: its records as they came, its part of the summary,
// and the moves of its machine.
func (r *Report) writeAgent(dir string, i int) error {
	a := &r.Run.Agents[i]
	dir = filepath.Join(dir, agentsDir, r.Summary.Agents[i].Folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	transitions := a.Transitions() // before the records move
	if a.Records != "" {
		moved := filepath.Join(dir, recordsName(a.Live))
		if err := moveFile(a.Records, moved); err != nil {
			return err
		}
		a.Records = moved
	}
	if err := writeJSON(filepath.Join(dir, summaryFile), &r.Summary.Agents[i]); err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, t := range transitions {
		line, err := json.Marshal(move{t.GetSequence(), t.GetAtNs(), t.GetFrom(), t.GetEvent(), t.GetTo(), t.GetReason()})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	if err := writeFile(filepath.Join(dir, "transitions.ndjson"), &lines); err != nil {
		return err
	}
	return syncDir(dir)
}

// recordsName returns the name of the file of records.
func recordsName(live bool) string {
	if live {
		return liveFile
	}
	return recordsFile
}

// moveFile syncs a file and moves it.
func moveFile(from, to string) error {
	file, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// A move is a line of transitions.ndjson.
type move struct {
	Sequence int64  `json:"sequence"`
	At       int64  `json:"at_ns"`
	From     string `json:"from"`
	Event    string `json:"event"`
	To       string `json:"to"`
	Reason   string `json:"reason,omitempty"`
}

// Read reads a result folder, and evaluates it anew from the records. It is an error of kind
// pawl.NotFound if dir is none.
func Read(dir string) (*Report, error) {
	return ReadFS(os.DirFS(dir), dir)
}

// ReadFS is Read for a folder as a file system, which messages call dir. So are ReadSummary and
// ReadConfig.
func ReadFS(files fs.FS, dir string) (*Report, error) {
	s, err := ReadSummary(files, dir)
	if err != nil {
		return nil, err
	}
	run := &Run{ID: s.RunID, Outcome: s.Outcome, Reason: s.Reason, Ended: s.Ended}
	if s.Started != nil {
		run.Started = *s.Started
	}
	if run.Config, run.Test, err = ReadConfig(files, dir); err != nil {
		return nil, err
	}
	for i := range s.Agents {
		a, err := readAgent(files, dir, &s.Agents[i])
		if err != nil {
			return nil, err
		}
		run.Agents = append(run.Agents, *a)
	}
	return Evaluate(run)
}

// ReadSummary reads what a result folder says of its run. It is an error of kind pawl.NotFound if
// dir is none.
func ReadSummary(files fs.FS, dir string) (*Summary, error) {
	var s Summary
	name := filepath.Join(dir, summaryFile)
	data, err := fs.ReadFile(files, summaryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("%s is no result folder: it has no %s", dir, summaryFile), Hint: `"pawl load run" writes one`}
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "%s: %v", name, err)
	}
	if s.Schema != SchemaVersion {
		return nil, pawl.Errorf(pawl.Invalid, "%s is of schema %d; this program reads schema %d", name, s.Schema, SchemaVersion)
	}
	return &s, nil
}

// ReadConfig reads the load file that a result folder has.
func ReadConfig(files fs.FS, dir string) ([]byte, *spec.Test, error) {
	config, err := fs.ReadFile(files, configFile)
	if err != nil {
		return nil, nil, err
	}
	test, err := spec.ParseFile(filepath.Join(dir, configFile), config)
	return config, test, err
}

// readAgent returns an agent of its part of the summary, and its records.
func readAgent(files fs.FS, dir string, p *AgentPart) (*Agent, error) {
	if !folderPattern.MatchString(strings.TrimRight(p.Folder, "-")) {
		return nil, pawl.Errorf(pawl.Invalid, "%s: %q is no folder of an agent", filepath.Join(dir, summaryFile), p.Folder)
	}
	a := &Agent{
		Index: p.Index, Address: p.Address, Status: statusByName(p.Status), Dropped: p.Dropped,
		Info:  &loadpb.AgentInfo{Id: p.ID, Hostname: p.Host, Kernel: p.Kernel, Cpus: p.CPUs, MemoryBytes: p.Memory, Build: p.Build},
		Clock: Clock{Offset: time.Duration(p.ClockOffset), Bound: time.Duration(p.ClockBound), Probes: p.ClockProbes},
		Skew:  [2]time.Duration{time.Duration(p.SkewFirst), time.Duration(p.SkewLast)}, Begun: p.HasBegun(), Live: p.Live, Missing: p.Missing,
	}
	if e := p.Error; e != nil {
		a.Error = &loadpb.Error{Code: loadpb.ErrorCode(loadpb.ErrorCode_value[e.Code]), Message: e.Message, Subject: e.Subject, Hint: e.Hint}
	}
	name := path.Join(agentsDir, p.Folder, recordsName(a.Live))
	if _, err := fs.Stat(files, name); err != nil {
		if errors.Is(err, fs.ErrNotExist) && !a.Live && strings.HasPrefix(p.Problem, noResult) {
			return a, nil
		}
		return nil, pawl.Errorf(pawl.Invalid, "%s is damaged: %v", dir, err)
	}
	a.Records, a.files = name, files
	return a, nil
}

func writeJSON(path string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return writeFile(path, &b)
}

// writeFile writes a new file and syncs it.
func writeFile(path string, from io.Reader) error {
	return create(path, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}

// create writes a new file with f and syncs it.
func create(path string, f func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := f(file); err != nil {
		return err
	}
	return file.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
