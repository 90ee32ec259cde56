package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl"
	"pgregory.net/rapid"
)

// A memory is a sink that can be slow or fail.
type memory struct {
	mu      sync.Mutex
	chunks  []pawl.Chunk
	batches []int // chunks of each call that succeeded
	fail    error
	hold    chan struct{} // if set, each call waits for it, or for its context
}

func (m *memory) sink(ctx context.Context, batch []pawl.Chunk) error {
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.batches = append(m.batches, len(batch))
	m.chunks = append(m.chunks, batch...)
	return nil
}

func (m *memory) failing(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// text returns what is stored, as "stream@offset text".
func (m *memory) text() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, c := range m.chunks {
		out = append(out, fmt.Sprintf("%s@%d %s", c.Stream, c.Offset, c.Data))
	}
	return out
}

func put(l *Log, stream, text string) { _, _ = l.Stream(stream).Write([]byte(text)) }

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func wantText(t *testing.T, m *memory, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, m.text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// (T8) head and tail are kept, and what is between is marked.
func TestLogHeadAndTail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size int
		want []string
	}{
		"within the head": {10, []string{"stdout@0 0123456789"}},
		"into the tail":   {12, []string{"stdout@0 0123456789", "stdout@10 01"}},
		"to the end":      {15, []string{"stdout@0 0123456789", "stdout@10 01234"}},
		"one byte more":   {16, []string{"stdout@0 0123456789", "stdout@10 \n... 1 bytes cut ...\n", "stdout@11 12345"}},
		"far more":        {1234575, []string{"stdout@0 0123456789", "stdout@10 \n... 1,234,560 bytes cut ...\n", "stdout@1234570 01234"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &memory{}
			l := NewLog(LogConfig{Head: 10, Tail: 5, Sink: m.sink})
			text := strings.Repeat("0123456789", test.size/10+1)[:test.size]
			put(l, Stdout, text[:test.size/3])
			put(l, Stdout, text[test.size/3:])
			closeLog(t, l)
			wantText(t, m, test.want...)
		})
	}
}

// The streams have bounds of their own, and chunks say whose they are.
func TestLogChunks(t *testing.T) {
	t.Parallel()
	m := &memory{}
	now := time.UnixMicro(1000)
	l := NewLog(LogConfig{
		Step: pawl.StepKey{Job: 7, Ord: 9}, Claim: 3, Head: 6, Tail: 2, Chunk: 4,
		Sink: m.sink, Now: func() time.Time { return now },
	})
	put(l, Stdout, "abcdefgh")
	put(l, Stderr, "ABC")
	l.Notef("n%d", 1)
	closeLog(t, l)
	put(l, Stdout, "too late")
	closeLog(t, l)
	key := pawl.StepKey{Job: 7, Ord: 9}
	want := []pawl.Chunk{
		{StepKey: key, Claim: 3, Stream: "stdout", Offset: 0, At: 1000, Data: []byte("abcd")},
		{StepKey: key, Claim: 3, Stream: "stdout", Offset: 4, At: 1001, Data: []byte("ef")},
		{StepKey: key, Claim: 3, Stream: "stderr", Offset: 0, At: 1002, Data: []byte("ABC")},
		{StepKey: key, Claim: 3, Stream: "pawl", Offset: 0, At: 1003, Data: []byte("n1\n")},
		{StepKey: key, Claim: 3, Stream: "stdout", Offset: 6, At: 1004, Data: []byte("gh")},
	}
	if diff := cmp.Diff(want, m.chunks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// (T8) people can follow: what is printed is stored within Every, or as soon as
// a chunk's worth waits.
func TestLogIsLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		l := NewLog(LogConfig{Chunk: 8, Sink: m.sink})
		put(l, Stdout, "one ")
		time.Sleep(199 * time.Millisecond)
		synctest.Wait()
		wantText(t, m)
		put(l, Stdout, "two")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wantText(t, m, "stdout@0 one two")
		put(l, Stdout, "12345678")
		synctest.Wait() // at once
		wantText(t, m, "stdout@0 one two", "stdout@7 12345678")
		closeLog(t, l)
		wantText(t, m, "stdout@0 one two", "stdout@7 12345678")
	})
}

// The order between streams is kept, until there are too many pieces.
func TestLogOrder(t *testing.T) {
	t.Parallel()
	m := &memory{}
	l := NewLog(LogConfig{Every: time.Hour, Sink: m.sink})
	put(l, Stdout, "a")
	put(l, Stderr, "b")
	put(l, Stdout, "c")
	put(l, Stdout, "d")
	closeLog(t, l)
	wantText(t, m, "stdout@0 a", "stderr@0 b", "stdout@1 cd")

	m = &memory{}
	l = NewLog(LogConfig{Every: time.Hour, Sink: m.sink})
	for range 10000 {
		put(l, Stdout, "x")
		put(l, Stderr, "y")
	}
	closeLog(t, l)
	if len(m.chunks) > maxRuns {
		t.Errorf("%d chunks", len(m.chunks))
	}
	if got := joined(m.chunks, Stdout); got != strings.Repeat("x", 10000) {
		t.Errorf("stdout has %d bytes", len(got))
	}
}

// joined puts the chunks of a stream together, and fails to if one is not where
// the one before ended.
func joined(chunks []pawl.Chunk, stream string) string {
	text := ""
	for _, c := range chunks {
		if c.Stream == stream {
			if int(c.Offset) != len(text) {
				return fmt.Sprintf("offset %d after %d bytes", c.Offset, len(text))
			}
			text += string(c.Data)
		}
	}
	return text
}

// A sink that hangs or fails delays nothing; once it takes chunks again, nothing is
// missing.
func TestLogSinkRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{hold: make(chan struct{})}
		l := NewLog(LogConfig{Chunk: 4, Sink: m.sink})
		put(l, Stdout, "abcdefgh")
		synctest.Wait()
		put(l, Stdout, "ijkl") // while the sink hangs
		m.failing(errors.New("busy"))
		close(m.hold)
		time.Sleep(time.Second) // and now it fails
		wantText(t, m)
		put(l, Stdout, "mn")
		m.failing(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		wantText(t, m, "stdout@0 abcd", "stdout@4 efgh", "stdout@8 ijkl", "stdout@12 mn")
		closeLog(t, l)
	})
}

// A sink that fails to the end costs the log, and Close says how much of it.
func TestLogSinkFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fail: errors.New("no space")}
		l := NewLog(LogConfig{Sink: m.sink})
		put(l, Stdout, strings.Repeat("x", 1234))
		err := l.Close(t.Context())
		if !errors.Is(err, m.fail) || !strings.HasPrefix(err.Error(), "1,234 bytes of log lost: ") {
			t.Errorf("got %v", err)
		}
	})
}

// What is lost is marked, if the sink takes what follows.
func TestLogLossIsMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		calls := 0
		l := NewLog(LogConfig{Chunk: 4, Every: time.Hour, Sink: func(ctx context.Context, b []pawl.Chunk) error {
			if calls++; calls <= lastTries {
				return errors.New("busy")
			}
			return m.sink(ctx, b)
		}})
		l.flush.start(l)
		l.mu.Lock() // so that nothing is written before it is closed
		l.pending.put(Stdout, 0, []byte("0123456789abcdefghij"), l.stamp)
		l.mu.Unlock()
		err := l.Close(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "16 bytes of log lost") {
			t.Errorf("got %v", err)
		}
		wantText(t, m, "stdout@0 \n... 16 bytes lost ...\n", "stdout@16 ghij")
	})
}

// Close returns when its context ends, though the sink hangs.
func TestLogCloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{hold: make(chan struct{})}
		l := NewLog(LogConfig{Sink: m.sink})
		put(l, Stdout, "abc")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		before := time.Now()
		if err := l.Close(ctx); err == nil || !strings.HasPrefix(err.Error(), "3 bytes") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(before); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestLogTee(t *testing.T) {
	t.Parallel()
	var got []string
	l := NewLog(LogConfig{Head: 1, Tail: 1, Tee: func(stream string, p []byte) { got = append(got, stream+" "+string(p)) }})
	put(l, Stdout, "uncut")
	l.Notef("note\n")
	closeLog(t, l)
	if diff := cmp.Diff([]string{"stdout uncut", "pawl note\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEmptyLog: a log in which nothing was written is closed at once, and drops what
// comes later.
func TestEmptyLog(t *testing.T) {
	t.Parallel()
	var m memory
	l := NewLog(LogConfig{Sink: m.sink})
	if !l.closeEmpty() {
		t.Error("it was not closed")
	}
	l.Notef("late")
	if err := l.Close(context.Background()); err != nil || len(m.chunks) > 0 {
		t.Errorf("%v, %d chunks; want none", err, len(m.chunks))
	}
	l = NewLog(LogConfig{Sink: m.sink})
	l.Notef("in time")
	if l.closeEmpty() {
		t.Error("it was closed without what was written")
	}
	if err := l.Close(context.Background()); err != nil || len(m.chunks) != 1 {
		t.Errorf("%v, %d chunks; want 1", err, len(m.chunks))
	}
}

func TestNilLog(t *testing.T) {
	t.Parallel()
	var l *Log
	put(l, Stdout, "dropped")
	l.Notef("dropped")
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Whatever is written in whatever pieces: every stream is whole, or its head,
// one mark with the right number, and its tail.
func TestLogKeepsWhatItPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(1, 20).Draw(t, "head"), rapid.IntRange(1, 20).Draw(t, "tail")
		m := &memory{}
		l := NewLog(LogConfig{Head: head, Tail: tail, Chunk: rapid.IntRange(1, 8).Draw(t, "chunk"), Sink: m.sink})
		wrote := map[string]string{}
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			stream := rapid.SampledFrom([]string{Stdout, Stderr}).Draw(t, "stream")
			text := rapid.StringMatching(`[a-z]{0,30}`).Draw(t, "text")
			wrote[stream] += text
			put(l, stream, text)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for stream, text := range wrote {
			want := text
			if cut := len(text) - head - tail; cut > 0 {
				want = fmt.Sprintf("%s\n... %d bytes cut ...\n%s", text[:head], cut, text[len(text)-tail:])
			}
			got := ""
			for _, c := range m.chunks {
				if c.Stream == stream {
					got += string(c.Data)
				}
			}
			if got != want {
				t.Fatalf("%s: got %q, want %q", stream, got, want)
			}
		}
	})
}

func TestRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := ring{limit: rapid.IntRange(1, 10).Draw(t, "limit")}
		all := ""
		for range rapid.IntRange(0, 10).Draw(t, "writes") {
			text := rapid.StringMatching(`[a-z]{0,25}`).Draw(t, "text")
			all += text
			_, _ = r.Write([]byte(text))
			if want := all[max(0, len(all)-r.limit):]; string(r.bytes()) != want {
				t.Fatalf("has %q, want %q", r.bytes(), want)
			}
		}
	})
}
