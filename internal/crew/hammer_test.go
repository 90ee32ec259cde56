package crew

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var (
	hammerTime = flag.Duration("hammer.time", time.Second, "how long TestHammer changes a member")
	hammers    = flag.Int("hammer.processes", 6, "by how many processes")
)

// A try is an attempt to make a move on the version of a member that a process has read.
type try struct {
	Call, Return int64 // monotonic, in nanoseconds; Return is 0 in the line that announces the try
	Seen         int64
	Event        machine.Event
	Made         int64 // the version that the move made, 0 if the member had another version by then
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

var errMoved = errors.New("the member has another version")

// hammer makes legal moves until it is killed. It prints each try before and after it.
func hammer(dir string) {
	f, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for {
		m, err := f.Load("auth")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		events := lifecycle.Member.Allowed(m.State)
		one := try{Seen: m.Version, Event: events[rand.IntN(len(events))], Call: monotonic()}
		_ = out.Encode(one)
		m, err = f.Change(context.Background(), "auth", func(m *Member) (*Move, error) {
			if m.Version != one.Seen {
				return nil, errMoved
			}
			return &Move{Event: one.Event, Actor: "hammer"}, nil
		})
		if err == nil {
			one.Made = m.Version
		} else if !errors.Is(err, errMoved) {
			fmt.Println(err)
			os.Exit(1)
		}
		one.Return = monotonic()
		_ = out.Encode(one)
	}
}

// hammered runs hammer in a process, for a while, kills it, and returns its
// tries. The last one may have no outcome.
func hammered(t *testing.T, dir string, d time.Duration) (tries []try) {
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c := exec.CommandContext(ctx, self) // which kills it by SIGKILL
	c.Env = append(os.Environ(), envDir+"="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = c.Wait() }()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var one try
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			if ctx.Err() == nil {
				t.Errorf("a process says %q", lines.Text())
			}
			break
		}
		if one.Return != 0 {
			tries = tries[:len(tries)-1]
		}
		tries = append(tries, one)
	}
	return tries
}

// versions is the model of a member: it has a version, and a move on that version makes the next
// one.
var versions = porcupine.Model{
	Init: func() any { return int64(1) },
	Step: func(state, input, output any) (bool, any) {
		version, in, made := state.(int64), input.(try), output.(int64)
		switch {
		case made > 0:
			return in.Seen == version && made == version+1, version + 1
		}
		return in.Seen != version, version
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %d", input, output) },
}

// TestHammer: many processes that change one member, and are killed while they do, make a
// linearizable history: the versions rise by one, each is made once, and nobody is told otherwise.
// The history of the member is that of the processes (C3, K6).
func TestHammer(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberSpawn); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), *hammerTime)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	var history []porcupine.Operation
	made, lost := map[int64]try{}, map[int64]try{}
	for range *hammers {
		all.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for ctx.Err() == nil || len(made) < 20 || len(history) == len(made) {
				mu.Unlock()
				tries := hammered(t, f.Dir, 100*time.Millisecond+rand.N(400*time.Millisecond))
				mu.Lock()
				for _, one := range tries {
					switch {
					case one.Return == 0:
						lost[one.Call] = one
					case one.Made > 0:
						if before, ok := made[one.Made]; ok {
							t.Errorf("version %d was made twice: %+v, %+v", one.Made, before, one)
						}
						made[one.Made] = one
						fallthrough
					default:
						history = append(history, porcupine.Operation{Input: one, Output: one.Made, Call: one.Call, Return: one.Return})
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	if _, err := f.Change(t.Context(), "auth", func(*Member) (*Move, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	m := check(t, f, "auth")
	// What was made without an acknowledgement was made by a process that was killed meanwhile.
	for version := int64(2); version <= m.Version; version++ {
		if _, ok := made[version]; ok {
			continue
		}
		var by *try
		for call, one := range lost {
			if one.Seen == version-1 {
				by = &one
				delete(lost, call)
				break
			}
		}
		if by == nil {
			t.Fatalf("nobody made version %d", version)
		}
		history = append(history, porcupine.Operation{Input: *by, Output: version, Call: by.Call, Return: math.MaxInt64})
	}
	for version := range made {
		if version > m.Version {
			t.Errorf("version %d was acknowledged, and the member has version %d", version, m.Version)
		}
	}
	t.Logf("%d moves, %d tries, %d processes killed within one", len(made), len(history), len(lost))
	if result := porcupine.CheckOperationsTimeout(versions, history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of the processes is not linearizable: %s", result)
	}
}

// TestALockThatIsHeld: a change that does not get the lock says so, and changes nothing (C3).
func TestALockThatIsHeld(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberSpawn); err != nil {
		t.Fatal(err)
	}
	lock, err := f.take(t.Context(), "auth")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := move(ctx, f, "auth", lifecycle.MemberAssign); pawl.KindOf(err) != pawl.Unavailable {
		t.Errorf("while another holds the lock: %v", err)
	}
	lock.Release()
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberAssign); err != nil {
		t.Error(err)
	}
}
