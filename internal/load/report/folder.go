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
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
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
)

// CanWrite makes the folder that dir is to be in, and returns why no folder could be written there.
func CanWrite(dir string) error {
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	probe, err := os.MkdirTemp(parent, ".pawl-probe-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// Write writes the result of a run as the folder dir, which appears with all its files at once,
// and returns the thresholds that were violated. It is an error of kind
// pawl.Conflict if dir exists.
func Write(dir string, run Run) (violations []string, err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, exists(dir, err)
	}
	r, err := Evaluate(&run)
	if err != nil {
		return nil, err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".tmp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := r.writeAll(work); err != nil {
		return nil, fmt.Errorf("write the result of run %s: %w", run.ID, err)
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(work, dir); err != nil {
		return nil, exists(dir, err)
	}
	return r.Summary.Violations, syncDir(parent)
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
	for i := range r.Run.Agents {
		if err := r.writeAgent(dir, i); err != nil {
			return err
		}
	}
	if err := r.writeTables(dir); err != nil {
		return err
	}
	if err := r.writeLatencies(filepath.Join(dir, "latencies")); err != nil {
		return err
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
	if a.Result != nil {
		if err := writeFile(filepath.Join(dir, recordsFile), bytes.NewReader(a.Result)); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(dir, summaryFile), &r.Summary.Agents[i]); err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, t := range a.Transitions() {
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
		Skew:  [2]time.Duration{time.Duration(p.SkewFirst), time.Duration(p.SkewLast)},
	}
	if e := p.Error; e != nil {
		a.Error = &loadpb.Error{Code: loadpb.ErrorCode(loadpb.ErrorCode_value[e.Code]), Message: e.Message, Subject: e.Subject, Hint: e.Hint}
	}
	var err error
	a.Result, err = fs.ReadFile(files, path.Join(agentsDir, p.Folder, recordsFile))
	if errors.Is(err, fs.ErrNotExist) && p.Problem == noResult {
		return a, nil
	}
	return a, err
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
