package results

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
)

const (
	intervalsFile = "intervals.tsv"
	all           = "all" // agents, or operations
	maxRow        = 1 << 20
)

// A Query selects intervals of a run.
type Query struct {
	Agent     string  // the folder of an agent, as Names has it; empty: all together
	Operation string  // of all agents together; empty: all together
	From, To  float64 // seconds since the start, To excluded; 0: no bound
	After     int64   // the place behind the last row of the page before
	Limit     int
}

// An Interval is what was done in an interval.
type Interval struct {
	Start     float64        `json:"start_seconds"`
	End       float64        `json:"end_seconds"`
	Warmup    bool           `json:"warmup" doc:"It is not in the figures of the run."`
	Backlog   uint64         `json:"backlog" doc:"Operations that were due and had not begun at its end."`
	CPUUser   *float64       `json:"cpu_user_seconds" doc:"Of the engines, if it is of all operations, and of one agent or of a run that has ended."`
	CPUSystem *float64       `json:"cpu_system_seconds"`
	Figures   report.Figures `json:"figures" doc:"Of a run that has ended without error classes, and without the number and the least of its latencies."`
}

// Intervals returns a page of the intervals of a run, and the place after it; 0: there are no more. It fails if
// ctx ends.
func (f *Folder) Intervals(ctx context.Context, r *Run, q Query) ([]Interval, int64, error) {
	if r.State == Damaged {
		return nil, 0, pawl.Errorf(pawl.Conflict, "run %s is damaged: %s", r.Name, r.Reason)
	}
	index := -1
	if q.Agent != "" && !r.Result {
		var err error
		if index, err = f.indexOf(r.Name, q.Agent); err != nil {
			return nil, 0, meanwhile(r.Name, err)
		}
	}
	p, err := inTime(ctx, f, f.deep, r.Name, func(at *progress) (*pageRead, error) {
		p := &pageRead{ctx: ctx, q: q, at: at}
		if r.Result {
			return p, f.ofResult(r.Name, p)
		}
		return p, meanwhile(r.Name, f.ofJournal(r.Name, index, p))
	})
	if err == nil && r.Result && q.Agent != "" && q.After == 0 && len(p.list) == 0 {
		err = f.knows(r.Name, q.Agent)
	}
	if err != nil {
		return nil, 0, err
	}
	return p.list, p.next, nil
}

// knows returns an error of kind pawl.Invalid if the result of a run has no agent of that name.
func (f *Folder) knows(run, agent string) error {
	s, err := f.Summary(run)
	if err != nil {
		return err
	}
	var names []string
	for i := range s.Agents {
		names = append(names, s.Agents[i].Folder)
	}
	if slices.Contains(names, agent) {
		return nil
	}
	return noAgent(run, agent, names)
}

// meanwhile returns the error of a run whose journal is gone: it has just ended, and its places are others.
func meanwhile(name string, err error) error {
	if pawl.KindOf(err) == pawl.NotFound {
		return pawl.Errorf(pawl.Conflict, "run %s has ended meanwhile: read its intervals from the first page on", name)
	}
	return err
}

// A pageRead is a page of intervals that is being read.
type pageRead struct {
	ctx  context.Context // of one call
	q    Query
	at   *progress
	list []Interval
	last int64 // the place behind the last one
	next int64 // that, if there is another page
}

// goOn notes progress, and fails if ctx has ended.
func (p *pageRead) goOn() error {
	p.at.made()
	return p.ctx.Err()
}

// add adds an interval behind which is a place; it fails with errFull if the page is full.
func (p *pageRead) add(i *Interval, place int64) error {
	if len(p.list) == p.q.Limit {
		p.next = p.last
		return errFull
	}
	p.list, p.last = append(p.list, *i), place
	return nil
}

// ofJournal reads intervals of a run that is on or lost, of all agents or of one.
func (f *Folder) ofJournal(name string, agent int, p *pageRead) error {
	reader, err := f.openJournal(name)
	if err != nil {
		return err
	}
	defer reader.Close()
	if agent < 0 {
		err = p.ofLines(reader)
	} else {
		err = p.ofAgent(reader, agent)
	}
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// ofLines reads intervals of all agents.
func (p *pageRead) ofLines(reader *journal.Reader) error {
	if err := reader.From(p.q.After); err != nil {
		return err
	}
	return reader.Read(func(l journal.Line) error {
		if err := p.goOn(); err != nil {
			return err
		}
		var line journal.IntervalLine
		if l.Type != journal.TypeInterval || json.Unmarshal(l.Data, &line) != nil || !p.q.within(line.Start) {
			return nil
		}
		i := Interval{Start: line.Start, End: line.End, Warmup: line.Warmup, Backlog: line.Backlog, Figures: line.Total}
		if p.q.Operation != "" && !figuresOf(&i.Figures, line.Operations, p.q.Operation) {
			return nil
		}
		return p.add(&i, l.Next)
	})
}

// ofAgent reads intervals of an agent.
func (p *pageRead) ofAgent(reader *journal.Reader, agent int) error {
	records, err := reader.Agent(agent)
	if err != nil || records == nil {
		return err
	}
	defer records.Close()
	if err := records.From(p.q.After, p.goOn); err != nil {
		return err
	}
	return records.Read(func(i *loadpb.Interval, next int64) error {
		if err := p.goOn(); err != nil {
			return err
		}
		if !p.q.within(float64(i.GetStartNs()) / 1e9) {
			return nil
		}
		line, err := journal.IntervalOf(agent, i, time.Time{})
		if err != nil {
			return err
		}
		user, system := i.GetCpuUserSeconds(), i.GetCpuSystemSeconds()
		return p.add(&Interval{Start: line.Start, End: line.End, Warmup: line.Warmup, Backlog: line.Backlog, CPUUser: &user, CPUSystem: &system, Figures: line.Total}, next)
	})
}

// errFull ends the reading of intervals once a page is full.
var errFull = errors.New("the page is full")

func figuresOf(to *report.Figures, operations []report.Operation, name string) bool {
	for i := range operations {
		if operations[i].Operation == name {
			*to = operations[i].Figures
			return true
		}
	}
	return false
}

func (q *Query) within(start float64) bool {
	return start >= q.From && (q.To == 0 || start < q.To)
}

// ofResult reads intervals of a run that has ended. A place is the offset of a row in the file.
func (f *Folder) ofResult(name string, p *pageRead) error {
	file, err := f.open(p.at, path.Join(name, intervalsFile))
	if err != nil {
		return damaged(name, err)
	}
	defer file.Close()
	t, err := openTable(file, p.q.After)
	if err != nil {
		return damaged(name, err)
	}
	for {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		row, err := t.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damaged(name, err)
		}
		i, is, err := row.interval(&p.q)
		switch {
		case err != nil:
			return damaged(name, err)
		case !is:
		case p.q.To > 0 && i.Start >= p.q.To+maxInterval: // rows are by their starts, those of agents nearly
			return nil
		case p.q.within(i.Start) && p.add(&i, t.at) != nil:
			return nil
		}
	}
}

// maxInterval is the longest interval of a run, in seconds.
const maxInterval = 60

func damaged(name string, err error) error {
	if pawl.KindOf(err) == pawl.Invalid {
		return err
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the intervals of run %s are damaged", name), Err: err}
}

// A table is the file of intervals.
type table struct {
	in      *bufio.Reader
	columns map[string]int
	at      int64 // where the next row begins
}

// openTable opens the table at a place.
func openTable(file *watched, at int64) (*table, error) {
	t := &table{in: bufio.NewReader(file), columns: map[string]int{}}
	head, err := t.line()
	if err != nil {
		return nil, err
	}
	for i, c := range strings.Split(head, "\t") {
		t.columns[c] = i
	}
	if at == 0 {
		return t, nil
	}
	var before [1]byte
	if _, err := file.ReadAt(before[:], at-1); at < t.at || err != nil && !errors.Is(err, io.EOF) || before[0] != '\n' {
		return nil, pawl.Errorf(pawl.Invalid, "cursor: want the next of a page")
	}
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	t.in.Reset(file)
	t.at = at
	return t, nil
}

func (t *table) line() (string, error) {
	var long []byte
	for {
		b, err := t.in.ReadSlice('\n')
		t.at += int64(len(b))
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(long) < maxRow:
			long = append(long, b...)
			continue
		case err == io.EOF && len(b)+len(long) > 0:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		case len(long) > 0:
			b = append(long, b...)
		}
		return string(bytes.TrimSuffix(b, []byte{'\n'})), nil
	}
}

func (t *table) next() (row, error) {
	line, err := t.line()
	return row{t, strings.Split(line, "\t"), nil}, err
}

// A row is one row of the table. Its cells are read until one is wrong.
type row struct {
	*table
	cells []string
	err   error
}

// interval returns the row as an interval, if a query is about such rows.
func (r row) interval(q *Query) (i Interval, is bool, err error) {
	if len(r.cells) != len(r.columns) {
		return i, false, fmt.Errorf("a row has %d cells, want %d", len(r.cells), len(r.columns))
	}
	if r.cell("agent") != orAll(q.Agent) || r.cell("operation") != orAll(q.Operation) {
		return i, false, r.err
	}
	i = Interval{Start: r.float("start_s"), End: r.float("end_s"), Warmup: r.cell("warmup") == "true", Backlog: r.count("backlog"), Figures: report.Figures{
		Operations: r.count("operations"), Bytes: r.count("bytes"), Errors: r.count("errors"), OperationsPerSecond: r.float("operations_per_s"), Service: r.latency("service"),
	}}
	if f := &i.Figures; f.Operations > 0 { // more exact than the column, and of the time that agents took
		f.BytesPerSecond = float64(f.Bytes) / float64(f.Operations) * f.OperationsPerSecond
	}
	if r.cell("cpu_user_s") != "" {
		user, system := r.float("cpu_user_s"), r.float("cpu_system_s")
		i.CPUUser, i.CPUSystem = &user, &system
	}
	if r.cell("response_p50_us") != "" {
		response := r.latency("response")
		i.Figures.Response = &response
	}
	if _, has := r.columns["retries"]; !has { // of an older program
		return i, true, r.err
	}
	i.Figures.Retries = r.count("retries")
	if r.cell("first_byte_p50_us") != "" {
		first := r.latency("first_byte")
		i.Figures.FirstByte = &first
	}
	return i, true, r.err
}

func orAll(name string) string {
	if name == "" {
		return all
	}
	return name
}

func (r *row) cell(column string) string {
	n, is := r.columns[column]
	if !is {
		r.err = fmt.Errorf("there is no column %s", column)
		return ""
	}
	return r.cells[n]
}

func (r *row) float(column string) float64 {
	v, err := strconv.ParseFloat(r.cell(column), 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = errors.New("no number")
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
	return v
}

func (r *row) count(column string) uint64 {
	v, err := strconv.ParseUint(r.cell(column), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
	return v
}

// latency returns a latency: its cells are microseconds with three digits, which are nanoseconds. They
// are empty if there is none.
func (r *row) latency(of string) (l report.Latency) {
	if r.cell(of+"_p50_us") == "" {
		return l
	}
	l.Mean = r.float(of+"_mean_us") * 1e3
	for _, c := range []struct {
		column string
		to     *int64
	}{{"p50", &l.P50}, {"p90", &l.P90}, {"p95", &l.P95}, {"p99", &l.P99}, {"p999", &l.P999}, {"max", &l.Max}} {
		*c.to = int64(math.Round(r.float(of+"_"+c.column+"_us") * 1e3))
	}
	return l
}
