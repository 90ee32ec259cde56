package programs

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

var update = flag.Bool("update", false, "rewrite the traces of the scenarios")

// (S14) A scenario is a file of testdata: lines that say what happens, then the trace of
// what the manager does, in synctest's time. `-update` rewrites the trace, and a person
// reads the difference.
//
//	service ID [KEY=VALUE ...]   a program of the file, new or changed; the keys are those of define
//	drop ID                      removes it from the file
//	apply                        applies the file
//	actor ID [KEY=VALUE ...]     how the program behaves; the keys are those of behave
//	exit ID CODE|SIGNAL          the program ends
//	start|stop|restart ID        orders
//	wait DURATION | show ID | history ID
//	crash | shutdown | force     crash: another manager continues with the journal
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
	*testing.T
	began   time.Time
	state   string
	journal supervisor.Journal
	cast    *cast
	file    spec.File
	applied bool

	manager *Manager
	stop    func() supervisor.Report

	mu    sync.Mutex
	trace []string
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, began: time.Now(), state: t.TempDir(), journal: &supervisor.MemoryJournal{}}
	s.boot()
	return s
}

func (s *scene) boot() {
	s.cast = &cast{note: s.note, actors: map[string]*actor{}}
	var err error
	s.manager, err = New(Config{
		Name: "test", State: s.state, Journal: s.journal, Log: slog.New(slog.DiscardHandler),
		Environ: func() []string { return nil },
		Hooks: supervisor.Hooks{
			Transition: func(id supervisor.Identity, t supervisor.Transition) {
				text := fmt.Sprintf("%s -> %s", t.From, t.To)
				if t.Reason != "" {
					text += " (" + t.Reason + ")"
				}
				if t.Actor != "" {
					text += " by " + t.Actor
				}
				s.note(id.ID, "%s", text)
			},
			Escalated: func(id supervisor.Identity, reason string) { s.note(id.ID, "escalates") },
			Refused:   func(id supervisor.Identity, err error) { s.note(id.ID, "REFUSED: %v", err) },
			Panicked: func(id supervisor.Identity, where string, v any, stack []byte) {
				s.note(id.ID, "PANIC in %s: %v", where, v)
			},
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.manager.launch = s.cast.launch
	s.manager.random = func() float64 { return 0.5 }
	if s.applied {
		s.apply()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan supervisor.Report, 1)
	manager := s.manager
	go func() {
		r, err := manager.Run(ctx)
		if err != nil {
			s.Error(err)
		}
		done <- r
	}()
	s.stop = sync.OnceValue(func() supervisor.Report {
		cancel()
		return <-done
	})
}

func (s *scene) note(id, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Since(s.began).Round(10 * time.Millisecond).Seconds()
	s.trace = append(s.trace, fmt.Sprintf("%6s %-5s %s", strconv.FormatFloat(at, 'g', 6, 64), id, fmt.Sprintf(format, args...)))
}

func (s *scene) play(script string) string {
	lines := bufio.NewScanner(strings.NewReader(script))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			s.do(append(strings.Fields(line), "", ""))
			synctest.Wait()
		}
	}
	go s.stop()
	time.Sleep(time.Hour)
	for _, p := range s.file.Programs { // what nothing ends would outlive the test
		s.cast.end(p.ID, "SIGKILL")
	}
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	settle(s.trace)
	return strings.Join(s.trace, "\n") + "\n"
}

// settle sorts by service what happens to several services at the same moment, since that
// has no order.
func settle(trace []string) {
	for i := 0; i < len(trace); {
		j := i + 1
		for j < len(trace) && trace[j][:6] == trace[i][:6] && trace[i][7] != ' ' && trace[j][7] != ' ' {
			j++
		}
		slices.SortStableFunc(trace[i:j], func(a, b string) int { return strings.Compare(a[:12], b[:12]) })
		i = j
	}
}

func (s *scene) do(words []string) {
	id := words[1]
	switch words[0] {
	case "service":
		s.define(id, words[2:])
	case "drop":
		s.file.Programs = slices.DeleteFunc(s.file.Programs, func(p *spec.Program) bool { return p.ID == id })
	case "apply":
		s.applied = true
		s.apply()
	case "actor":
		s.behave(s.cast.actor(id), words[2:])
	case "exit":
		s.cast.end(id, words[2])
	case "start", "stop", "restart":
		s.note("", "%s %s", words[0], id)
		err := s.manager.Order(context.Background(), id, control.Order{Verb: control.Verb(words[0]), Change: pawl.Change{Actor: "cli:alice", Reason: words[2]}})
		if err != nil {
			s.note("", "refused: %s", orFine(err))
		}
	case "wait":
		d, err := time.ParseDuration(id)
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(d)
	case "show":
		s.show(id)
	case "history":
		s.history(id)
	case "crash":
		s.crash()
	case "shutdown":
		s.note("", "shutdown")
		go func() { s.note("", "report: %+v", s.stop()) }()
	case "force":
		s.manager.Force()
	default:
		s.Fatalf("line %q: unknown", words)
	}
}

// orFine formats an error, or "fine".
func orFine(err error) string {
	var e *pawl.Error
	switch {
	case err == nil:
		return "fine"
	case errors.As(err, &e) && e.Hint != "":
		return e.Error() + " (" + e.Hint + ")"
	}
	return err.Error()
}

func (s *scene) apply() {
	var d []control.Difference
	err := errors.New("it does not come back")
	done := make(chan struct{})
	s.note("", "apply")
	go func() {
		defer close(done)
		d, err = s.manager.Apply(context.Background(), &s.file, pawl.Change{Actor: "cli:bob"})
	}()
	<-done
	synctest.Wait()
	s.note("", "applied: %v %s", d, orFine(err))
}

func (s *scene) show(id string) {
	v, err := s.manager.Service(id)
	if err != nil {
		s.note("", "show: %s", orFine(err))
		return
	}
	s.note("", "%s: %s (%s), wanted %s %s, starts %d, exit %q", id, v.State, v.Phase, v.Wanted, v.By, v.Starts, v.Exit)
	for _, p := range v.Probes {
		s.note("", "   %s: %v %s, %d in a row", p.Kind, p.OK, p.Error, p.Streak)
	}
	for _, w := range v.Why {
		s.note("", "   why: %s", w)
	}
}

func (s *scene) history(id string) {
	moves, err := s.manager.History(context.Background(), id)
	if err != nil {
		s.Fatal(err)
	}
	for _, m := range moves {
		s.note("", "   %d %s %s by %s: %s", m.Sequence, m.Event, m.To, m.Actor, m.Reason)
	}
}

// crash ends the manager as if its process were killed, and starts another with the
// journal.
func (s *scene) crash() {
	s.note("", "crash")
	trails, journal := s.journal.(supervisor.Trailer), &supervisor.MemoryJournal{}
	for _, p := range s.file.Programs {
		trail, _ := supervisor.Trails(context.Background(), trails, p.ID)
		for _, e := range trail {
			if err := journal.Append(context.Background(), e); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.mu.Lock()
	n := len(s.trace)
	s.mu.Unlock()
	s.manager.Force()
	s.stop()
	synctest.Wait()
	s.mu.Lock()
	s.trace = s.trace[:n]
	s.mu.Unlock()
	s.journal = journal
	s.boot()
}

// define makes a program of the file, with the defaults and
//
//	needs=ID:CONDITION,... ready alive (probes by command) timeout=D (of start) grace=D signal=NAME
//	policy=P base=D burst=N reset=D permanent=N env=TEXT autostart=false jitter successes=N failures=N
func (s *scene) define(id string, words []string) {
	p := defaultProgram(id)
	p.Command, p.Dir = []string{"/bin/true"}, "/"
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		n, _ := strconv.Atoi(value)
		switch key {
		case "":
		case "needs":
			for need := range strings.SplitSeq(value, ",") {
				of, condition, _ := strings.Cut(need, ":")
				p.Needs = append(p.Needs, spec.Need{ID: of, Condition: spec.Condition(condition)})
			}
		case "ready":
			p.Ready = &spec.Probe{Command: []string{"/bin/true", "ready"}, Interval: time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
		case "alive":
			p.Alive = &spec.Probe{Command: []string{"/bin/true", "alive"}, Interval: 10 * time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
		case "successes":
			p.Ready.Successes = n
		case "failures":
			p.Ready.Failures = n
		case "timeout":
			p.Start.Timeout = d
		case "grace":
			p.Stop.Grace = d
		case "signal":
			p.Stop.Signal = value
		case "policy":
			p.Restart.Policy = spec.Policy(value)
		case "base":
			p.Restart.Base = d
		case "burst":
			p.Restart.Burst = n
		case "reset":
			p.Restart.Reset = d
		case "permanent":
			p.Restart.PermanentExitCodes = []int{n}
		case "env":
			p.Env = map[string]string{"TEXT": value}
		case "autostart":
			p.Autostart = value != "false"
		case "jitter":
			p.Restart.Jitter = true
		default:
			s.Fatalf("key %q: unknown", key)
		}
	}
	s.file.Programs = slices.DeleteFunc(slices.Clone(s.file.Programs), func(old *spec.Program) bool { return old.ID == id })
	s.file.Programs = append(s.file.Programs, p)
}

// behave sets how a program behaves: ready and alive are ok, fail or hang.
func (s *scene) behave(a *actor, words []string) {
	s.cast.mu.Lock()
	defer s.cast.mu.Unlock()
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		switch key {
		case "":
		case "ready", "alive":
			a.probes[key] = value
		case "missing":
			a.missing = value != "no"
		case "fork":
			a.fork = value != "no"
		case "slow":
			a.slow = d
		case "deaf":
			a.deaf = true
		case "stuck":
			a.stuck = true
		case "lingers":
			a.lingers = d
		case "quick":
			a.quick = value
		default:
			s.Fatalf("key %q: unknown", key)
		}
	}
}
