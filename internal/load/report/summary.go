package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// SchemaVersion is that of summary.json. Fields are added without a new version.
const SchemaVersion = 1

// A Summary is the contents of summary.json. docs/load.md documents it.
type Summary struct {
	Schema     int         `json:"schema"`
	RunID      string      `json:"run_id"`
	Name       string      `json:"name"`
	Outcome    string      `json:"outcome"` // completed, failed, aborted
	Reason     string      `json:"reason,omitempty"`
	Partial    bool        `json:"partial"`               // an agent's part is missing, damaged or ended early
	Live       int         `json:"live_agents,omitempty"` // agents of which all figures have what they have sent while they ran, for want of a result
	Started    *time.Time  `json:"started,omitempty"`
	Ended      time.Time   `json:"ended"`
	Seconds    float64     `json:"seconds"` // without the warm-up, of the agent that took longest
	Config     string      `json:"config_sha256"`
	Violations []string    `json:"violations,omitempty"` // of thresholds
	Skew       *Skew       `json:"skew,omitempty"`
	NotBegun   uint64      `json:"not_begun,omitempty"` // operations that were due and had not begun at the end: no latency has them
	Total      Figures     `json:"total"`
	Operations []Operation `json:"operations"`
	Agents     []AgentPart `json:"agents"`
}

// A Skew is how far apart the threads of all agents have begun.
type Skew struct {
	First int64 `json:"first_ns"` // of the first thread of all, after the intended start
	Last  int64 `json:"last_ns"`  // of the last thread of all
	Bound int64 `json:"bound_ns"` // the uncertainty of both
}

// An Operation has the figures of one kind of operation, and of each size class of it.
type Operation struct {
	Operation string `json:"operation"`
	Figures
	SizeClasses []SizeClass `json:"size_classes,omitempty"`
}

// A SizeClass has the figures of operations of about one size.
type SizeClass struct {
	Class string `json:"size_class"`
	Figures
}

// An AgentPart is what one agent has done.
type AgentPart struct {
	Index   int    `json:"index"`
	ID      string `json:"id"`
	Folder  string `json:"folder"` // within agents
	Address string `json:"address,omitempty"`
	Host    string `json:"hostname,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	CPUs    uint32 `json:"cpus,omitempty"`
	Memory  uint64 `json:"memory_bytes,omitempty"`
	Build   string `json:"build,omitempty"`

	Status  string      `json:"status"`
	Error   *AgentError `json:"error,omitempty"`
	Partial bool        `json:"partial,omitempty"` // it is missing, damaged or ended early
	Live    bool        `json:"live,omitempty"`    // it is what has come while the agent ran: there is no result
	Problem string      `json:"problem,omitempty"` // with its records
	Missing string      `json:"missing,omitempty"` // why there is no result
	Dropped int64       `json:"dropped,omitempty"` // statistics on the way, which the records have nevertheless

	ClockOffset int64 `json:"clock_offset_ns"`
	ClockBound  int64 `json:"clock_bound_ns"`
	ClockProbes int   `json:"clock_probes"`
	SkewFirst   int64 `json:"skew_first_ns"`
	SkewLast    int64 `json:"skew_last_ns"`
	Begun       bool  `json:"begun"` // all its threads: the skew is known

	Seconds  float64 `json:"seconds"`
	NotBegun uint64  `json:"not_begun,omitempty"`
	Figures
	CPUUser   float64  `json:"cpu_user_seconds"`
	CPUSystem float64  `json:"cpu_system_seconds"`
	Samples   []string `json:"error_samples,omitempty"`
	Prepare   *Prepare `json:"prepare,omitempty"`
	Cleanup   *Cleanup `json:"cleanup,omitempty"`
}

// An AgentError is why the part of an agent has ended.
type AgentError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Subject string `json:"subject,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// Prepare is what was prepared.
type Prepare struct {
	Seconds float64 `json:"seconds"`
	Files   uint64  `json:"files"`
	Folders uint64  `json:"folders"`
	Bytes   uint64  `json:"bytes"`
	Kept    uint64  `json:"kept_files"`
}

// Cleanup is what was deleted.
type Cleanup struct {
	Files   uint64   `json:"deleted_files"`
	Folders uint64   `json:"deleted_folders"`
	Left    uint64   `json:"left_files"`
	Errors  []string `json:"errors,omitempty"`
}

// A Report is what the records of a run say.
type Report struct {
	Run     *Run
	Summary Summary
	Totals  stats.Table // of all agents, without the warm-up
	Series  []Point     // per interval, all agents together
}

// A Point is one interval of a run, all operations and agents together.
type Point struct {
	Start, End float64 // seconds since the start
	Warmup     bool
	Backlog    uint64
	Figures
}

// Evaluate adds up the records of a run.
func Evaluate(run *Run) (*Report, error) {
	r := &Report{Run: run, Totals: stats.Table{}}
	hash := sha256.Sum256(run.Config)
	r.Summary = Summary{
		Schema: SchemaVersion, RunID: run.ID, Name: run.Test.Name, Outcome: run.Outcome, Reason: run.Reason, Ended: run.Ended.UTC(),
		Config: hex.EncodeToString(hash[:]), Partial: run.Outcome != Completed,
	}
	if !run.Started.IsZero() {
		started := run.Started.UTC()
		r.Summary.Started = &started
	}
	folders := map[string]bool{}
	for i := range run.Agents {
		if err := r.addAgent(&run.Agents[i], folders); err != nil {
			return nil, err
		}
	}
	r.Summary.Skew = skewOf(run)
	r.total()
	r.Summary.Violations = violations(run.Test, r)
	return r, r.addSeries()
}

// The outcomes of a run.
const (
	Completed = "completed"
	Failed    = "failed"
	Aborted   = "aborted"
)

// addAgent adds what an agent has done. Damaged records are a problem of the agent and no error.
func (r *Report) addAgent(a *Agent, folders map[string]bool) error {
	table, p := stats.Table{}, AgentPart{
		Index: a.Index, ID: a.Info.GetId(), Folder: FolderOf(a.Info.GetId(), a.Index, folders), Address: a.Address, Host: a.Info.GetHostname(), Kernel: a.Info.GetKernel(),
		CPUs: a.Info.GetCpus(), Memory: a.Info.GetMemoryBytes(), Build: a.Info.GetBuild(), Status: statusOf(a.Status), Error: errorOf(a.Error), Dropped: a.Dropped,
		ClockOffset: int64(a.Clock.Offset), ClockBound: int64(a.Clock.Bound), ClockProbes: a.Clock.Probes,
		SkewFirst: int64(a.Skew[0]), SkewLast: int64(a.Skew[1]), Begun: a.Begun,
	}
	end := a.end()
	p.NotBegun, p.Live, p.Problem, p.Missing = end.backlog, a.Live, problemOf(a, &end), a.Missing
	if result := end.result; result == nil {
		p.Seconds = addIntervals(table, a)
	} else {
		p.Seconds = result.GetSeconds()
		if err := table.Add(result.GetTotals()); err != nil {
			return fmt.Errorf("agent %s: %w", p.Folder, err)
		}
		p.addResult(result)
	}
	p.Figures = figuresOf(sum(table, ""), p.Seconds)
	p.Partial = p.Problem != "" || a.Status != loadpb.Status_STATUS_COMPLETED
	if r.Summary.Partial = r.Summary.Partial || p.Partial; p.Live {
		r.Summary.Live++
	}
	r.Totals.Merge(table)
	r.Summary.Agents = append(r.Summary.Agents, p)
	r.Summary.NotBegun += p.NotBegun
	r.Summary.Seconds = max(r.Summary.Seconds, p.Seconds)
	return nil
}

// HasBegun reports whether the threads of the agent have begun, of older summaries as well.
func (p *AgentPart) HasBegun() bool { return p.Begun || p.SkewFirst != 0 || p.SkewLast != 0 }

// State returns the status of an agent for people: lost if it has not said how its run has ended, and
// partial if its figures are not those of a whole run.
func (p *AgentPart) State() string {
	state := p.Status
	switch statusByName(p.Status) {
	case loadpb.Status_STATUS_COMPLETED, loadpb.Status_STATUS_ERROR, loadpb.Status_STATUS_ABORTED:
	default:
		if p.Error != nil {
			state = "lost"
		}
	}
	if p.Partial {
		state += ", partial"
	}
	return state
}

// arrived says how many intervals have come.
func arrived(intervals int) string {
	if intervals == 1 {
		return "interval that has come"
	}
	return fmt.Sprintf("%d intervals that have come", intervals)
}

// problemOf returns what is wrong with the records of an agent, or "".
func problemOf(a *Agent, e *end) (problem string) {
	switch {
	case a.Records == "":
		problem = noResult
	case a.Live && (e.result != nil || e.intervals == 0):
		problem = "what has come while it ran is damaged"
	case a.Live:
		problem = fmt.Sprintf("%s; its figures are of the %s while it ran, up to %s", noResult, arrived(e.intervals), e.until.Round(time.Millisecond))
		if a.Dropped > 0 {
			problem += fmt.Sprintf(", without %d that were lost on the way", a.Dropped)
		}
	case e.problem != nil:
		return e.problem.Error()
	}
	if a.Missing != "" && problem != "" {
		problem += ": " + a.Missing
	}
	return problem
}

func (p *AgentPart) addResult(result *loadpb.Result) {
	p.CPUUser, p.CPUSystem, p.Samples = result.GetCpuUserSeconds(), result.GetCpuSystemSeconds(), result.GetErrorSamples()
	if p.Error == nil {
		p.Error = errorOf(result.GetError())
	}
	if s := result.GetPrepare(); s != nil {
		p.Prepare = &Prepare{Seconds: s.GetSeconds(), Files: s.GetFiles(), Folders: s.GetFolders(), Bytes: s.GetBytes(), Kept: s.GetKeptFiles()}
	}
	if c := result.GetCleanup(); c != nil {
		p.Cleanup = &Cleanup{Files: c.GetDeletedFiles(), Folders: c.GetDeletedFolders(), Left: c.GetLeftFiles(), Errors: c.GetErrors()}
	}
}

// addIntervals adds the intervals of records that have no totals, up to the first damage, and
// returns their time.
func addIntervals(table stats.Table, a *Agent) (seconds float64) {
	for i := range a.intervals() {
		if i.GetWarmup() || table.Add(i.GetOperations()) != nil {
			continue
		}
		seconds += part{Interval: i}.seconds()
	}
	return seconds
}

var folderPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// everyone stands for all agents in tables.
const everyone = "all"

// FolderOf returns the name of an agent's folder: its id, if no other agent has it, it can be
// the name of a folder anywhere and it does not stand for all agents; and its number otherwise. The name
// is added to those that are taken. Agents are named in the order of their numbers.
func FolderOf(id string, index int, taken map[string]bool) string {
	name := id
	if !folderPattern.MatchString(name) || name == everyone || taken[name] {
		for name = fmt.Sprintf("agent-%d", index); taken[name]; {
			name += "-"
		}
	}
	taken[name] = true
	return name
}

var statusNames = map[loadpb.Status]string{
	loadpb.Status_STATUS_PREPARING: "preparing", loadpb.Status_STATUS_READY: "ready", loadpb.Status_STATUS_RUNNING: "running",
	loadpb.Status_STATUS_COMPLETED: "completed", loadpb.Status_STATUS_ERROR: "error", loadpb.Status_STATUS_ABORTED: "aborted",
}

// statusOf returns the name of a status; unknown for none.
func statusOf(s loadpb.Status) string { return cmp.Or(statusNames[s], "unknown") }

func statusByName(name string) loadpb.Status {
	for s, n := range statusNames {
		if n == name {
			return s
		}
	}
	return loadpb.Status_STATUS_UNSPECIFIED
}

// noResult is the problem of an agent without records.
const noResult = "there is no result"

func errorOf(e *loadpb.Error) *AgentError {
	if e == nil {
		return nil
	}
	return &AgentError{Code: e.GetCode().String(), Message: e.GetMessage(), Subject: e.GetSubject(), Hint: e.GetHint()}
}

// skewOf returns the skew over the agents whose clocks were measured and that have begun, or nil.
func skewOf(run *Run) *Skew {
	var s *Skew
	for _, a := range run.Agents {
		if a.Clock.Probes == 0 || !a.Begun {
			continue
		}
		if s == nil {
			s = &Skew{First: int64(a.Skew[0]), Last: int64(a.Skew[1])}
		}
		s.First, s.Last, s.Bound = min(s.First, int64(a.Skew[0])), max(s.Last, int64(a.Skew[1])), max(s.Bound, int64(a.Clock.Bound))
	}
	return s
}

// total fills in the figures of all agents, over the time of the one that took longest.
func (r *Report) total() {
	s := &r.Summary
	s.Total = Total(r.Totals, s.Seconds)
	s.Operations = Operations(r.Totals, s.Seconds)
	for i := range s.Operations {
		o := &s.Operations[i]
		for _, k := range r.Totals.Keys() {
			if k.Operation == o.Operation && k.SizeClass != "" {
				o.SizeClasses = append(o.SizeClasses, SizeClass{k.SizeClass, figuresOf(r.Totals[k], s.Seconds)})
			}
		}
		slices.SortStableFunc(o.SizeClasses, func(a, b SizeClass) int { return cmp.Compare(rank(a.Class), rank(b.Class)) })
	}
}

// rank orders size classes by size.
func rank(class string) int {
	return slices.Index([]string{"0", "<=4KiB", "<=64KiB", "<=512KiB", "<=4MiB", "<=32MiB", "<=256MiB", "<=2GiB", ">2GiB"}, class)
}

// kindRank orders operations as spec.Kinds does, others last.
func kindRank(operation string) int {
	if i := slices.Index(spec.Kinds, spec.Kind(operation)); i >= 0 {
		return i
	}
	return len(spec.Kinds)
}

func (r *Report) addSeries() error {
	return walk(r.Run, func(s *slice) error {
		r.Series = append(r.Series, Point{
			Start: s.start.Seconds(), End: s.end.Seconds(), Warmup: s.warmup, Backlog: s.backlog, Figures: figuresOf(s.sum(s.table, ""), s.seconds()),
		})
		return nil
	})
}
