package health

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A stage is one observer with a database of its own, on a clock that the test sets.
type stage struct {
	judge *Judge
	begun time.Time     // of the observer's clock, which is never set
	now   time.Duration // since then
	clock int64         // of the database
	since int64         // when its server was started
	lag   time.Duration // between request and reply
	seen  map[rowkey.Worker]Sighting
	order []rowkey.Worker
}

func newStage(silence time.Duration) *stage {
	return &stage{judge: NewJudge(silence, Apart(silence)), begun: time.Unix(1e9, 0), clock: 1e15, since: 1e15 - 3600e6, seen: map[rowkey.Worker]Sighting{}}
}

func (s *stage) time() time.Time { return s.begun.Add(s.now) }

func (s *stage) pass(d time.Duration) {
	s.now += d
	s.clock += d.Microseconds()
}

func (s *stage) beat(workers ...rowkey.Worker) {
	for _, w := range workers {
		if _, known := s.seen[w]; !known {
			s.order = append(s.order, w)
		}
		s.seen[w] = Sighting{Worker: w, Beat: s.clock, Lock: Held}
	}
}

func (s *stage) lock(worker rowkey.Worker, l Lock) {
	w := s.seen[worker]
	w.Lock = l
	s.seen[worker] = w
}

func (s *stage) report() *Report {
	r := &Report{Now: s.clock, Started: s.since}
	for _, w := range s.order {
		r.Workers = append(r.Workers, s.seen[w])
	}
	return r
}

// look asks and judges; what it found is in words.
func (s *stage) look() string {
	asked := s.time()
	s.pass(s.lag / 2)
	r := s.report()
	s.pass(s.lag - s.lag/2)
	var words []string
	for _, d := range s.judge.Look(r, asked, s.time()) {
		words = append(words, fmt.Sprintf("%d %s (%v)", d.Worker, d.Reason(), d.Counts))
	}
	return fmt.Sprint(words)
}

const none = "[]"

// TestVerdicts (J9, T10): what is done from a first look on, at which worker 1 and 2
// have just beaten, and what each further look finds.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	second := time.Second
	step := func(s *stage, d time.Duration, beats ...rowkey.Worker) string {
		s.pass(d)
		s.beat(beats...)
		return s.look()
	}
	for name, tt := range map[string]struct {
		play func(s *stage) []string
		want []string
	}{
		"all beat": {func(s *stage) []string {
			return []string{step(s, 3*second, 1, 2), step(s, 3*second, 1, 2), step(s, 3*second, 1, 2)}
		}, []string{none, none, none}},
		"one is silent": {func(s *stage) []string {
			return []string{step(s, 3*second, 2), step(s, 2999*time.Millisecond, 2), step(s, time.Millisecond, 2)}
		}, []string{none, none, "[1 silent for 6 s (true)]"}},
		"all are silent": {func(s *stage) []string {
			return []string{step(s, 3*second), step(s, 3*second)}
		}, []string{none, "[1 silent for 6 s, as all workers were (false) 2 silent for 6 s, as all workers were (false)]"}},
		"a lock was released": {func(s *stage) []string {
			s.lock(1, Free)
			return []string{s.look()}
		}, []string{"[1 its process is gone (true)]"}},
		"a remote worker is silent": {func(s *stage) []string {
			s.lock(1, None)
			return []string{step(s, 3*second, 2), step(s, 2999*time.Millisecond, 2), step(s, time.Millisecond, 2)}
		}, []string{none, none, "[1 silent for 6 s (true)]"}},
		"a remote worker has chosen a longer silence": {func(s *stage) []string {
			s.seen[1] = Sighting{Worker: 1, Beat: s.clock, Lock: None, Silence: 8 * second}
			return []string{step(s, 3*second, 2), step(s, 4*second, 2), step(s, second, 2)}
		}, []string{none, none, "[1 silent for 8 s (true)]"}},
		"a remote worker beats": {func(s *stage) []string {
			s.lock(1, None)
			s.lock(2, None)
			s.seen[2] = Sighting{Worker: 2, Beat: s.clock, Lock: None, Silence: second}
			var all []string
			for range 3 {
				s.pass(3 * second)
				s.seen[1] = Sighting{Worker: 1, Beat: s.clock, Lock: None}
				all = append(all, s.look())
			}
			return all
		}, []string{none, "[2 silent for 6 s (true)]", "[2 silent for 9 s (true)]"}},
		"a lock was lost": {func(s *stage) []string {
			s.lock(1, Lost)
			return []string{s.look(), step(s, 2999*time.Millisecond), step(s, 2*second)}
		}, []string{none, none, "[1 its process is gone (true)]"}},
		"a lock was lost, and the last beat is not old": {func(s *stage) []string {
			s.lock(1, Lost)
			return []string{s.look(), step(s, 3*second), step(s, time.Second)}
		}, []string{none, none, "[1 its process is gone (true)]"}},
		"a lock was lost and taken again": {func(s *stage) []string {
			s.lock(1, Lost)
			first := s.look()
			s.lock(1, Held)
			second := step(s, 3*time.Second, 2)
			s.lock(1, Lost)
			return []string{first, second, step(s, 1500*time.Millisecond, 2)}
		}, []string{none, none, none}},
		"a lock was lost and not taken again by one who beats": {func(s *stage) []string {
			var all []string
			for range 4 {
				s.pass(3 * second)
				s.beat(1, 2)
				s.lock(1, Lost)
				all = append(all, s.look())
			}
			return all
		}, []string{none, none, none, none}},
		"the server was restarted": {func(s *stage) []string {
			s.pass(1900 * time.Millisecond) // too short to break the contact
			s.since = s.clock
			return []string{s.look(), step(s, 3*second), step(s, 2999*time.Millisecond), step(s, time.Second, 2)}
		}, []string{none, none, none, "[1 silent for 6 s (true)]"}},
		"one query failed": {func(s *stage) []string {
			s.pass(3 * second)
			s.judge.Failed(s.time())
			return []string{step(s, second), step(s, 2*second, 2)}
		}, []string{none, "[1 silent for 6 s (true)]"}},
		"no answer for the time of a beat": {func(s *stage) []string {
			s.pass(3 * second)
			s.judge.Failed(s.time())
			s.pass(time.Second)
			s.judge.Failed(s.time())
			return []string{step(s, second), step(s, 3*second, 2), step(s, 3*second, 2)}
		}, []string{none, none, "[1 silent for 6 s (true)]"}},
		"an answer that took the time of a beat": {func(s *stage) []string {
			s.pass(3 * second)
			s.lag = 2 * second
			slow := s.look()
			s.lag = 0
			return []string{slow, step(s, 3*second, 2), step(s, 3*second, 2)}
		}, []string{none, none, "[1 silent for 6 s (true)]"}},
		"the observer stood still": {func(s *stage) []string {
			return []string{step(s, time.Hour), step(s, 3*second, 2)}
		}, []string{none, none}},
		"an outage between two looks at a lost lock": {func(s *stage) []string {
			s.lock(1, Lost)
			first := s.look()
			s.judge.Failed(s.time())
			return []string{first, step(s, 10*second, 2), step(s, 2999*time.Millisecond, 2), step(s, 1001*time.Millisecond, 2)}
		}, []string{none, none, none, "[1 its process is gone (true)]"}},
		"the clock was set forward": {func(s *stage) []string {
			s.clock += 3600e6
			return []string{step(s, 2*second), step(s, 3*second, 2), step(s, 3*second, 2)}
		}, []string{none, none, "[1 silent for 6 s (true)]"}},
		"the clock was set back": {func(s *stage) []string {
			s.clock -= 3600e6
			return []string{step(s, 2*second), step(s, 3*second, 2), step(s, 3*second, 2)}
		}, []string{none, none, "[1 silent for 6 s (true)]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(Silence)
			s.beat(1, 2)
			if got := s.look(); got != none {
				t.Fatalf("at the first look: %s", got)
			}
			got := tt.play(s)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheDeadAreFoundInTime: a worker that is silent, and one that is gone, within the silence and the time
// between two looks (T10).
func TestTheDeadAreFoundInTime(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		rapid.Check(t, func(t *rapid.T) {
			silence := rapid.SampledFrom([]time.Duration{MinSilence, Silence, time.Minute}).Draw(t, "silence")
			s := newStage(silence)
			s.beat(1, 2)
			s.pass(time.Duration(rapid.Int64Range(0, int64(Beat(silence))).Draw(t, "until the first look")))
			died := s.now
			if lost {
				s.lock(1, Lost)
			}
			for {
				s.beat(2)
				s.lag = time.Duration(rapid.Int64Range(0, int64(Beat(silence)/2)).Draw(t, "lag"))
				if s.look() != none {
					return
				}
				bound := silence + Apart(silence)
				if lost {
					bound = 2*Beat(silence) + 2*Apart(silence)
				}
				if s.now-died > bound+2*s.lag+Beat(silence) {
					t.Fatalf("not found dead %s after its last beat", s.now-died)
				}
				s.pass(Apart(silence))
			}
		})
	}
}

// TestNobodyWhoBeatsIsDead: whatever becomes of the database, its clock, the observer
// and connections, no worker dies that beats whenever the database responds (T10).
func TestNobodyWhoBeatsIsDead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		silence := rapid.SampledFrom([]time.Duration{MinSilence, Silence, time.Minute}).Draw(t, "silence")
		s := newStage(silence)
		s.beat(1, 2)
		var away time.Duration // the database, until then
		var late [3]time.Duration
		next := [3]time.Duration{}
		span := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		look := time.Duration(0)
		for range rapid.IntRange(10, 80).Draw(t, "events") {
			connected := func(w rowkey.Worker) bool { return s.seen[w].Lock == Held } // who is on the way back is not thrown back again
			switch rapid.IntRange(0, 16).Draw(t, "fault") {
			case 0: // an outage, in which the server is restarted or stands still
				if !connected(1) || !connected(2) {
					break
				}
				away = s.now + span("away", 3*silence)
				if rapid.Bool().Draw(t, "restarted") {
					s.since = s.clock + (away - s.now).Microseconds()
				}
				for w := rowkey.Worker(1); w <= 2; w++ {
					s.lock(w, Lost)
					late[w], next[w] = away+span("until it is back", Beat(silence)), 0
				}
			case 1: // one connection is lost
				w := rowkey.Worker(rapid.Int64Range(1, 2).Draw(t, "worker"))
				if !connected(w) {
					break
				}
				s.lock(w, Lost)
				late[w], next[w] = max(late[w], s.now+span("until it is back", Beat(silence))), 0
			case 2: // the observer stands still
				look = s.now + span("observer", 3*silence)
			case 3: // the clock of the database is set
				s.clock += rapid.Int64Range(-7200e6, 7200e6).Draw(t, "by")
			}
			s.lag = span("lag", Beat(silence)/4)
			s.pass(span("time", Beat(silence)/4))
			for w := rowkey.Worker(1); w <= 2; w++ {
				if s.now >= away && s.now >= late[w] && s.now >= next[w] {
					s.beat(w)
					next[w] = s.now + span("until the next beat", Beat(silence))
				}
			}
			switch {
			case s.now < look:
			case s.now < away:
				s.judge.Failed(s.time())
				look = s.now + 200*time.Millisecond
			default:
				look = s.now + Apart(silence)
				if got := s.look(); got != none {
					t.Fatalf("at %s: %s", s.now, got)
				}
			}
		}
	})
}

// TestGlance: one look says who seems dead, and what it proves.
func TestGlance(t *testing.T) {
	t.Parallel()
	const now = int64(1e15)
	r := &Report{Now: now, Started: now - 3600e6, Workers: []Sighting{
		{Worker: 1, Beat: now - 1e6, Lock: Held}, {Worker: 2, Beat: now - 7e6, Lock: Held}, {Worker: 3, Beat: now - 3e6, Lock: Lost}, {Worker: 4, Beat: now - 5e6, Lock: Lost}, {Worker: 5, Beat: now, Lock: Free}, {Worker: 6, Beat: now + 9e6, Lock: Lost}}}
	var got []string
	for _, d := range Glance(r, Silence) {
		got = append(got, fmt.Sprintf("%d %s", d.Worker, d.Reason()))
	}
	if want := []string{"2 silent for 7 s", "4 its process is gone", "5 its process is gone"}; !slices.Equal(got, want) {
		t.Errorf("at a glance %q, want %q", got, want)
	}
	r.Started = now - 1e6
	if dead := Glance(r, Silence); len(dead) != 1 || dead[0].Worker != 5 {
		t.Errorf("just after a start of the server: %+v; want 5 alone", dead)
	}
	if dead := Proven(r); len(dead) != 1 || dead[0].Worker != 5 {
		t.Errorf("proven: %+v; want 5 alone", dead)
	}
}

// TestEnded: those that have ended are reported in each look, with how long they are
// quiet, of which contact and the start of the server are a part.
func TestEnded(t *testing.T) {
	t.Parallel()
	s := newStage(Silence)
	quiet := func(d time.Duration) time.Duration {
		t.Helper()
		s.pass(d)
		r := s.report()
		r.Ended = []Sighting{{Worker: 7, Beat: 1e15 - 60e6}}
		dead := s.judge.Look(r, s.time(), s.time())
		if len(dead) != 1 || dead[0].Cause != Ended || dead[0].Worker != 7 {
			t.Fatalf("found %+v; want worker 7, ended", dead)
		}
		return dead[0].Quiet
	}
	for i, want := range []time.Duration{0, 3 * time.Second, 6 * time.Second} {
		if got := quiet(min(want, 3*time.Second)); got != want {
			t.Errorf("look %d: quiet for %s, want %s", i, got, want)
		}
	}
	s.since = s.clock
	if got := quiet(time.Second); got != time.Second {
		t.Errorf("a second after a start of the server: quiet for %s", got)
	}
}

// TestDeadline: what is isolated has been killed a second before the silence is over,
// and has the time of two beats where that can be asked for.
func TestDeadline(t *testing.T) {
	t.Parallel()
	sent := time.Unix(1e9, 0)
	for silence, want := range map[time.Duration][2]time.Duration{ // grace, and from the beat to SIGTERM
		2 * time.Second: {0, time.Second}, 6 * time.Second: {time.Second, 4 * time.Second}, 15 * time.Second: {4 * time.Second, 10 * time.Second},
		time.Minute: {5 * time.Second, 54 * time.Second},
	} {
		got := [2]time.Duration{Grace(silence, 5*time.Second), Deadline(sent, silence, 5*time.Second).Sub(sent)}
		if got != want {
			t.Errorf("silence %s: grace and deadline %s, want %s", silence, got, want)
		}
		if got[0]+got[1] > silence-time.Second || silence >= IsolationSilence && got[1] < 2*Beat(silence) {
			t.Errorf("silence %s: grace and deadline %s leave too little", silence, got)
		}
	}
}

// TestTimings: every silence has room for two attempts that fail.
func TestTimings(t *testing.T) {
	t.Parallel()
	for _, silence := range []time.Duration{MinSilence, Silence, time.Minute} {
		if Beat(silence) > silence/3 || Beat(silence)+Attempt(silence) >= silence || 2*Apart(silence) > silence {
			t.Errorf("silence %s: beat %s, attempt %s, apart %s", silence, Beat(silence), Attempt(silence), Apart(silence))
		}
	}
}
