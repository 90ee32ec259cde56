package supervisor_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/supervisor"
)

var update = flag.Bool("update", false, "rewrite the traces of the scenarios")

// A scenario is a file of testdata: lines that say what happens, then the trace of
// what the supervisor made of it. `-update` rewrites the trace, and a person reads
// the difference.
//
//	service ID [parent=ID] [needs=ID,ID] [KEY=VALUE ...]   adds a service; the keys are those of parse
//	wait DURATION                                          lets time pass
//	exit ID | sick ID | well ID | down ID | up ID          changes the thing, or what is desired of it
//	remove ID | crash | shutdown                           crash: another process goes on, with the journal
func TestScenarios(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) < 10 {
		t.Fatalf("found %d scenarios", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, trace, _ := strings.Cut(string(text), "\n---\n")
			var got string
			synctest.Test(t, func(t *testing.T) { got = newScene(t).play(script) })
			if *update {
				if err := os.WriteFile(file, []byte(script+"\n---\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(trace, got); diff != "" {
				t.Errorf("trace (-want +got):\n%s", diff)
			}
		})
	}
}

// A scene is a scenario that is being played.
type scene struct {
	*hall
	journal *supervisor.MemoryJournal
	plants  map[string]*plant
	handles map[string]*handle
	added   []string // lines that a crash repeats
}

func newScene(t *testing.T) *scene {
	s := &scene{journal: &supervisor.MemoryJournal{}, plants: map[string]*plant{}}
	s.boot(t)
	return s
}

func (s *scene) boot(t *testing.T) {
	var h *hall
	name := func(id supervisor.Identity, text string, args ...any) {
		h.note("%-7s "+text, append([]any{id.ID}, args...)...)
	}
	c := supervisor.Config{Shards: 1, Journal: s.journal}
	c.Hooks = supervisor.Hooks{
		Transition: func(id supervisor.Identity, tr supervisor.Transition) {
			name(id, "%s -> %s", tr.From, tr.To)
		},
		Action: func(ctx context.Context, id supervisor.Identity, r supervisor.Run, a supervisor.Action) (context.Context, func(supervisor.Attempt)) {
			name(id, "  %s begins, attempt %d", a.Name(), r.Attempt)
			return ctx, nil
		},
		Settled: func(id supervisor.Identity, a supervisor.ActionStatus) {
			what := string(a.Kind)
			if a.Succeeded {
				what = "succeeded"
			}
			if a.Failed {
				what += ", for good"
			}
			if a.Abandoned {
				what += ", abandoned"
			}
			name(id, "  %s %s", a.ActionName, what)
		},
		Escalated: func(id supervisor.Identity, reason string) { name(id, "escalates: %s", reason) },
	}
	h = newHall(t, c)
	if s.hall != nil {
		h.began, h.trace = s.hall.began, s.hall.trace
	}
	s.hall, s.handles = h, map[string]*handle{}
	h.run()
}

func (s *scene) play(script string) string {
	lines := bufio.NewScanner(strings.NewReader(script))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			s.do(strings.Fields(line), line)
			synctest.Wait()
		}
	}
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(3 * time.Hour)
	settle(s.trace)
	return strings.Join(s.trace, "\n") + "\n"
}

// settle orders what happens to several services at the same moment by their
// names: it has no order of its own.
func settle(trace []string) {
	when := func(line string) string {
		words := strings.Fields(line)
		if slices.Contains([]string{"shutdown", "report:", "crash"}, words[1]) { // what is on both sides of it stays there
			return ""
		}
		return words[0]
	}
	for i := 0; i < len(trace); {
		j := i + 1
		for j < len(trace) && when(trace[i]) != "" && when(trace[i]) == when(trace[j]) {
			j++
		}
		slices.SortStableFunc(trace[i:j], func(a, b string) int { return strings.Compare(a[:16], b[:16]) })
		i = j
	}
}

func (s *scene) do(words []string, line string) {
	if len(words) < 2 {
		words = append(words, "")
	}
	p := s.plants[words[1]]
	switch words[0] {
	case "service":
		s.added = append(s.added, line)
		s.service(words[1:])
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(d)
	case "exit":
		p.set(func() { p.up = false })
	case "sick", "well":
		p.set(func() { p.sick = words[0] == "sick" })
	case "down", "up":
		if err := s.handles[words[1]].SetSpec(want{Down: words[0] == "down"}); err != nil {
			s.Fatal(err)
		}
	case "remove":
		r, err := s.s.Remove(context.Background(), words[1])
		s.note("%-7s removed: %v %v", words[1], r, err)
	case "shutdown":
		s.note("shutdown")
		s.note("report: %+v", s.stop())
	case "crash":
		s.crash()
	default:
		s.Fatalf("line %q: unknown", line)
	}
}

// crash ends the process, with no regard for what runs, and starts another.
func (s *scene) crash() {
	s.note("crash")
	s.mu.Lock()
	n := len(s.trace)
	s.mu.Unlock()
	trails := s.journal // what it held at the crash
	s.journal = &supervisor.MemoryJournal{}
	for id := range s.plants {
		for _, e := range trailOf(trails, supervisor.Entity(id, 1)) {
			if err := s.journal.Append(context.Background(), e); err != nil {
				s.Fatal(err)
			}
		}
	}
	ups := map[string]bool{}
	for id, p := range s.plants {
		p.set(func() { ups[id] = p.up })
	}
	s.s.Force()
	s.stop()
	synctest.Wait()
	s.mu.Lock()
	s.trace = s.trace[:n]
	s.mu.Unlock()
	s.boot(s.T)
	for _, line := range s.added {
		words := strings.Fields(line)[1:]
		s.service(words)
		p := s.plants[words[0]]
		p.set(func() { p.up = ups[words[0]] })
	}
}

func (s *scene) service(words []string) {
	p := &plant{id: words[0], look: takes(time.Millisecond)} // so that what is seen is seen last
	id := supervisor.Identity{ID: words[0]}
	var o supervisor.Options
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "parent":
			id.Parent = value
		case "needs":
			o.DependsOn = strings.Split(value, ",")
		default:
			s.parse(p, key, value)
		}
	}
	s.plants[p.id] = p
	s.handles[p.id] = s.addAs(id, p, o)
}

// parse sets what a service does: start and stop are as scripted has them.
func (s *scene) parse(p *plant, key, value string) {
	var err error
	switch key {
	case "start":
		p.start = s.scripted(value)
	case "stop":
		p.stop = s.scripted(value)
	case "timeout":
		p.limits.Timeout, err = time.ParseDuration(value)
	case "attempts":
		p.limits.Attempts, err = strconv.Atoi(value)
	case "restarts": // while it is sick
		p.next = func(state string, n snapshot) *decision {
			if state == "running" && n.Observed.Sick && !n.Shutdown {
				return &decision{Signal: supervisor.SignalNeedsRestart, Reason: "sick"}
			}
			return nil
		}
	default:
		err = fmt.Errorf("key %s: unknown", key)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// scripted reads what an action does: outcomes that follow each other, the last one
// for ever: ok, fail, permanent, panic, hang, deaf, and a duration is ok after it.
func (s *scene) scripted(value string) func(context.Context, *plant) error {
	steps := strings.Split(value, ",")
	return func(ctx context.Context, p *plant) error {
		step := steps[0]
		if len(steps) > 1 {
			steps = slices.Clone(steps[1:])
		}
		switch step {
		case "ok":
			return nil
		case "fail":
			return errors.New("it failed")
		case "permanent":
			return supervisor.ErrNonRetriable
		case "panic":
			panic("it panicked")
		case "hang":
			<-ctx.Done()
			return ctx.Err()
		case "deaf":
			return deaf(time.Hour)(ctx, p)
		}
		d, err := time.ParseDuration(step)
		if err != nil {
			return err
		}
		return takes(d)(ctx, p)
	}
}
