package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// tellTime has the test binary tell the time for each line that it is given.
const tellTime = "PAWL_CHAOS_TELL_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(tellTime) == "" {
		os.Exit(m.Run())
	}
	begun := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), time.Since(begun).Milliseconds())
	}
}

// A process whose clock is stepped reads another time, from its start or from
// one moment to the next, and time goes by as ever.
func TestTheClockOfAProcessIsStepped(t *testing.T) {
	t.Parallel()
	if err := canStep(); err != nil {
		t.Logf("no clock is stepped: %v", err)
		return
	}
	h := newHost(true)
	defer h.close()
	h.step(90 * time.Minute)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), tellTime+"=1"), attributes()
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	if err := h.start(cmd, exited); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answers)
	begun := time.Now()
	for _, step := range []time.Duration{0, time.Hour, -12 * time.Hour, 5 * time.Second} {
		h.step(step)
		before := h.now()
		if _, err := io.WriteString(ask, "\n"); err != nil || !lines.Scan() {
			t.Fatalf("it does not answer: %v, %v", err, lines.Err())
		}
		text := strings.Fields(lines.Text())
		unix, _ := strconv.ParseInt(text[0], 10, 64)
		if told := time.Unix(unix, 0); told.Before(before.Add(-time.Second)) || told.After(h.now()) {
			t.Errorf("after a step of %s it is %s by the process, %s by its host", step, told, before)
		}
		if ms, _ := strconv.ParseInt(text[1], 10, 64); ms < 0 || ms > time.Since(begun).Milliseconds()+1000 {
			t.Errorf("after a step of %s it has run for %d ms by its own account", step, ms)
		}
	}
	ask.Close()
	<-exited
	if !cmd.ProcessState.Success() {
		t.Errorf("it has ended with %s", cmd.ProcessState)
	}
}

func TestMomentsOfATime(t *testing.T) {
	t.Parallel()
	h := newHost(false)
	begun := time.Now().Add(-time.Hour)
	// ahead by an hour after 10 minutes, and back by 5 minutes of it after 20
	h.jumps = []jump{{begun, 0}, {begun.Add(10 * time.Minute), time.Hour}, {begun.Add(20 * time.Minute), 55 * time.Minute}}
	at := func(minutes float64) int64 {
		return begun.Add(time.Duration(minutes * float64(time.Minute))).UnixMicro()
	}
	for _, tt := range []struct {
		shown float64
		want  []float64
	}{
		{-1, nil}, {5, []float64{5}}, {30, nil}, {71, []float64{11}}, {78, []float64{18, 23}}, {90, []float64{35}}, {200, nil},
	} {
		var want []int64
		for _, m := range tt.want {
			want = append(want, at(m))
		}
		if got := h.moments(at(tt.shown)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("minute %v: shown at %v, want %v", tt.shown, got, want)
		}
	}
}

// aClockThatIsSetKillsNobody: on SQLite the wall clock tells how old a beat is. Set
// by hours between two beats, it makes nobody dead who lives (T10, J9).
func aClockThatIsSetKillsNobody(t *testing.T, binary string) {
	if err := canStep(); err != nil {
		t.Logf("no clock is stepped: %v", err)
		return
	}
	c := &config{binary: binary, dir: t.TempDir(), kind: "sqlite", silence: 4 * time.Second, patience: 2 * time.Minute, steps: true, progress: t.Logf}
	db, err := c.newDatabase(t.Context(), c.dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	cl, err := newCluster(t.Context(), c, c.dir, db, []string{dev, dev})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.close()
	for range 8 {
		db.clock().step(time.Hour)
		sleep.For(t.Context(), 400*time.Millisecond)
		db.clock().step(-30 * time.Minute)
		sleep.For(t.Context(), 200*time.Millisecond)
	}
	workers, err := cl.store.Workers(t.Context(), store.WorkerFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workers {
		if lifecycle.Worker.Ended(w.State) {
			t.Errorf("worker %s is %s, and its process lives", w.Name, w.State)
		}
	}
	if err := cl.stop(); err != nil || len(workers) != 2 {
		t.Errorf("%d workers, want 2; stop: %v", len(workers), err)
	}
}

// A clock that is set back by ten seconds at 100: a step that was begun before and one
// that was begun meanwhile look as if they had run at once, and did not.
func TestProgressByAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	h := newHost(false)
	begun := time.Now().Add(-time.Hour)
	at := func(second int64) int64 { return begun.UnixMicro() + second*1e6 }
	h.jumps = []jump{{begun, 0}, {pawl.Time(at(100)), -10 * time.Second}, {pawl.Time(at(105)), 0}}
	trail := func(times ...int64) (trail []audit.Entry) {
		for i, to := range []machine.State{lifecycle.StepEnqueued, lifecycle.StepInProgress, lifecycle.StepComplete} {
			trail = append(trail, audit.Entry{To: to, At: at(times[i])})
		}
		return trail
	}
	for _, tt := range []struct {
		name  string
		trail []audit.Entry
		want  []span
	}{
		{"before", trail(10, 20, 30), []span{{at(20), at(30)}}},
		{"at once with the entry before", trail(10, 10, 30), []span{{at(10), at(30)}}},
		{"at a time that was shown twice", trail(10, 91, 110), nil},
		{"while the clock is behind", trail(99, 99, 110), nil},
		{"until the clock is behind", trail(10, 99, 99), nil},
		{"after", trail(110, 110, 120), []span{{at(110), at(120)}}},
	} {
		if got := progress(h, tt.trail); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
