package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func openLog(t *testing.T, c LogConfig) *LogFile {
	t.Helper()
	l := OpenLog(c)
	t.Cleanup(func() { l.Close() })
	return l
}

func print(t *testing.T, l *LogFile, text string) {
	t.Helper()
	if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); string(b) != want {
		t.Errorf("%s holds %q, %v; want %q", path, b, err, want)
	}
}

func wantNoFile(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v; want it not to exist", path, err)
	}
}

func tail(t *testing.T, path string, n int) string {
	t.Helper()
	var b bytes.Buffer
	if err := Tail(&b, path, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRotation: files are set aside at line ends where they can be, the oldest is
// removed, and a restart continues where the last one ended.
func TestRotation(t *testing.T) { // S14
	t.Parallel()
	path := t.TempDir() + "/folder/log"
	c := LogConfig{Path: path, MaxSize: 10, MaxFiles: 2}
	l := openLog(t, c)
	print(t, l, "one\ntwo\nthree\n") // two lines fit
	wantFile(t, path, "three\n")
	wantFile(t, path+".1", "one\ntwo\n")
	l.Close()
	print(t, l, "nobody hears it")
	l = openLog(t, c)
	print(t, l, "fo")
	print(t, l, "ur\nfive\n") // the line that has begun is cut, and nothing lost
	wantFile(t, path, "\nfive\n")
	wantFile(t, path+".1", "three\nfour")
	wantFile(t, path+".2", "one\ntwo\n")
	print(t, l, "a line too long for it\n")
	wantFile(t, path, "it\n")
	wantFile(t, path+".1", " long for ")
	wantFile(t, path+".2", "a line too")
	wantNoFile(t, path+".3")
	if err := l.Err(); err != nil {
		t.Error(err)
	}
}

// TestRotationUnderOthers: gaps that others have left are used, what is too old after
// a change of the limits is removed, and files that are not of the log are let be.
func TestRotationUnderOthers(t *testing.T) { // S14
	t.Parallel()
	path := t.TempDir() + "/log"
	for _, name := range []string{"", ".1", ".3", ".5", ".6", ".gz", ".07"} {
		if err := os.WriteFile(path+name, []byte(name+"xxxxxxxx\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := openLog(t, LogConfig{Path: path, MaxSize: 10, MaxFiles: 4})
	print(t, l, "new line\n")
	for name, want := range map[string]string{"": "new line\n", ".1": "xxxxxxxx\n", ".2": ".1xxxxxxxx\n", ".3": ".3xxxxxxxx\n", ".gz": ".gzxxxxxxxx\n", ".07": ".07xxxxxxxx\n"} {
		wantFile(t, path+name, want)
	}
	for _, name := range []string{".4", ".5", ".6"} {
		wantNoFile(t, path+name)
	}
	none := openLog(t, LogConfig{Path: path + "-none", MaxSize: 10})
	print(t, none, "xxxxxxxx\nyyyyyyyy\n")
	wantFile(t, path+"-none", "yyyyyyyy\n")
	wantNoFile(t, path+"-none.1")
}

// TestFullDisk: what there is no room for is counted, and a line says so as soon as
// there is; the writers never notice.
func TestFullDisk(t *testing.T) { // S14
	t.Parallel()
	path := t.TempDir() + "/log"
	l := openLog(t, LogConfig{Path: path, MaxSize: 1 << 20, MaxFiles: 1})
	room := 8
	l.write = func(f *os.File, p []byte) (int, error) {
		fits := min(room, len(p))
		n, err := f.Write(p[:fits])
		if room -= n; err == nil && fits < len(p) {
			err = syscall.ENOSPC
		}
		return n, err
	}
	print(t, l, "four\nfive\nsix\n")
	if !errors.Is(l.Err(), syscall.ENOSPC) {
		t.Errorf("err is %v", l.Err())
	}
	room = 10 // not enough for the line that says so
	print(t, l, "seven\n")
	wantFile(t, path, "four\nfiv")
	room = 1 << 20
	print(t, l, "eight\n")
	wantFile(t, path, "four\nfiv\n[pawl: 12 bytes were lost: no space left on device]\neight\n")
	if l.Err() != nil {
		t.Errorf("err is %v", l.Err())
	}
}

// TestTroubledFile: whatever happens to file and folder, writing continues, and output
// is kept again when it can be.
func TestTroubledFile(t *testing.T) { // S14
	t.Parallel()
	dir := t.TempDir() + "/folder"
	path := dir + "/log"
	l := openLog(t, LogConfig{Path: path, MaxSize: 1 << 20, MaxFiles: 1})
	print(t, l, "1\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	print(t, l, "2\n")
	wantFile(t, path, "2\n")
	if err := os.Rename(path, path+"-by-others"); err != nil {
		t.Fatal(err)
	}
	print(t, l, "3\n")
	wantFile(t, path, "3\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	print(t, l, "4\n")
	wantFile(t, path, "4\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the folder was
		t.Fatal(err)
	}
	print(t, l, "5\n")
	print(t, l, "6\n")
	if !errors.Is(l.Err(), syscall.ENOTDIR) {
		t.Errorf("err is %v", l.Err())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	print(t, l, "7\n")
	wantFile(t, path, "[pawl: 4 bytes were lost: open "+path+": not a directory]\n7\n")

	for _, special := range []string{"/dev/null", dir} {
		l := openLog(t, LogConfig{Path: special, MaxSize: 1, MaxFiles: 1})
		if print(t, l, "xx\n"); l.Err() == nil {
			t.Errorf("%s was taken for a file", special)
		}
	}
}

// TestTail is held against lines that are remembered: any number of them, over any
// number of files, with and without an end.
func TestTail(t *testing.T) { // S14
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 12 {
		path := t.TempDir() + "/log"
		l := openLog(t, LogConfig{Path: path, MaxSize: 20 + int64(r.IntN(200)), MaxFiles: 1 << 20})
		var all strings.Builder
		for range r.IntN(30) {
			chunk := strings.Repeat(strings.Repeat("x", r.IntN(40))+"\n", r.IntN(3)) + strings.Repeat("y", r.IntN(2)*r.IntN(9))
			print(t, l, chunk)
			all.WriteString(chunk)
		}
		lines := strings.SplitAfter(all.String(), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		for _, n := range []int{-1, 0, 1, 2, r.IntN(20), len(lines), len(lines) + 1} {
			want := lines
			if n >= 0 {
				want = lines[max(len(lines)-n, 0):]
			}
			if got := tail(t, path, n); got != strings.Join(want, "") {
				t.Fatalf("round %d: the last %d lines are %q, want %q", round, n, got, want)
			}
		}
	}
	if got := tail(t, t.TempDir()+"/none", 3); got != "" {
		t.Errorf("of no file: %q", got)
	}
	long := t.TempDir() + "/long"
	print(t, openLog(t, LogConfig{Path: long}), strings.Repeat("z", 200<<10)+"\nlast\n")
	if got := len(tail(t, long, 2)); got != 200<<10+6 {
		t.Errorf("a long line: %d bytes", got)
	}
}

// follow follows a log until the test ends or stop is called, which waits for its end.
func follow(t *testing.T, l *LogFile, n int) (s *screen, stop func() error) {
	t.Helper()
	s = newScreen()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx, s, n) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return s, stop
}

// TestFollow: what was kept, then what is written, over rotations, removals and
// restarts of the file, until the context ends.
func TestFollow(t *testing.T) { // S14
	t.Parallel()
	path := t.TempDir() + "/log"
	l := openLog(t, LogConfig{Path: path, MaxSize: 30, MaxFiles: 100})
	print(t, l, "a\nb\nc\n")
	s, stop := follow(t, l, 2)
	s.wait(t, "b\nc\n", 1)
	want := "b\nc\n"
	for i := range 100 {
		line := fmt.Sprintf("line %d\n", i)
		print(t, l, line)
		want += line
		if i%10 == 0 {
			s.wait(t, line, 1)
		}
	}
	s.wait(t, "line 99\n", 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	print(t, l, "after\n")
	s.wait(t, "after\n", 1)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	print(t, l, "anew\n")
	s.wait(t, "anew\n", 1)
	if got := s.String(); got != want+"after\nanew\n" {
		t.Errorf("followed %q, want %q", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	late, _ := follow(t, l, 0)
	for late.String() == "" { // from wherever it begins
		print(t, l, "late\n")
	}
	l.Close()
}

// TestFollowEnds: closing the log ends it, and so does a reader who went away.
func TestFollowEnds(t *testing.T) { // S14
	t.Parallel()
	l := openLog(t, LogConfig{Path: t.TempDir() + "/log", MaxSize: 1 << 20})
	print(t, l, "a\n")
	l.Close()
	var b bytes.Buffer
	if err := l.Follow(t.Context(), &b, -1); err != nil || b.String() != "a\n" {
		t.Errorf("followed %q, %v", &b, err)
	}
	if err := l.Follow(t.Context(), broken{}, -1); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestFollowSlowly: a reader that is overtaken gets a note, and continues with what is
// left.
func TestFollowSlowly(t *testing.T) { // S14
	t.Parallel()
	l := openLog(t, LogConfig{Path: t.TempDir() + "/log", MaxSize: 10, MaxFiles: 1})
	g := &gatedScreen{screen: newScreen(), reached: make(chan struct{}), open: make(chan struct{})}
	print(t, l, "first\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx, g, -1) }()
	<-g.reached
	for i := range 5 {
		print(t, l, fmt.Sprintf("line %d\n", i))
	}
	close(g.open)
	g.wait(t, "line 4\n", 1)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := "first\n" + removedNote + "line 3\nline 4\n"; g.String() != want {
		t.Errorf("followed %q, want %q", g, want)
	}
}

// A gatedScreen blocks its first writer.
type gatedScreen struct {
	*screen
	once          sync.Once
	reached, open chan struct{}
}

func (g *gatedScreen) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.reached) })
	<-g.open
	return g.screen.Write(p)
}

// TestFlood: a program that prints as fast as it can into a small log loses nothing
// that there is room for, and no file grows beyond the limit.
func TestFlood(t *testing.T) { // S14
	t.Parallel()
	path := t.TempDir() + "/log"
	l := openLog(t, LogConfig{Path: path, MaxSize: 10_000, MaxFiles: 1000})
	s, _ := follow(t, l, -1)
	spec := shell(`i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done`)
	spec.Stdout = l
	wantDone(t, start(t, spec))
	s.wait(t, "line 19999\n", 1)
	var want strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if s.String() != want.String() {
		t.Errorf("followed %d bytes, want %d", len(s.String()), want.Len())
	}
	if got := tail(t, path, -1); got != want.String() {
		t.Errorf("kept %d bytes, want %d", len(got), want.Len())
	}
	for _, i := range append(rotatedFiles(path), 0) {
		if info, err := os.Stat(logName(path, i)); err != nil || info.Size() > 10_000 {
			t.Errorf("file %d: %v, %v", i, info, err)
		}
	}
}

// TestLines is held against the split text, in any chunks.
func TestLines(t *testing.T) { // S14
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"\n", []string{""}},
		{"a\n\nb", []string{"a", "", "b"}},
		{"a\nb\n", []string{"a", "b"}},
		{long + "\nb\n", []string{long, "b"}},
		{long + "yz\nb\n", []string{long + cutMark, "b"}},
		{"a\n" + long + long + long, []string{"a", long + cutMark}},
	} {
		for _, size := range []int{1, 2, 7, 1000, len(tt.text) + 1} {
			var got []string
			l := NewLines(func(line []byte) { got = append(got, string(line)) })
			for rest := []byte(tt.text); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = l.Write(rest[:n])
				rest = rest[n:]
			}
			l.Close()
			if strings.Join(got, "|") != strings.Join(tt.want, "|") || len(got) != len(tt.want) {
				t.Errorf("%.20q by %d: %d lines, want %d", tt.text, size, len(got), len(tt.want))
			}
		}
	}
}
