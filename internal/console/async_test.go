package console

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// Nobody who writes waits for a terminal that is held; what was left out is told
// when it goes on (S14).
func TestAsyncWriter(t *testing.T) {
	t.Parallel()
	reader, terminal := io.Pipe()
	r := NewAsyncWriter(terminal)
	line := strings.Repeat("x", 1023) + "\n"
	for i := range 3 * maxPending / len(line) { // nobody reads
		if _, err := fmt.Fprint(r, line); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	if !r.Behind() {
		t.Error("the reader is not behind")
	}
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(reader)
		read <- b
	}()
	r.Close()
	fmt.Fprintln(r, "after the end")
	_ = terminal.Close()
	got := <-read
	kept := bytes.Count(got, []byte(line))
	if kept < maxPending/len(line)/2 || kept > 2*maxPending/len(line) {
		t.Errorf("%d lines were kept", kept)
	}
	want := fmt.Sprintf("%d lines were left out: nobody read them\nafter the end\n", 3*maxPending/len(line)-kept)
	if !bytes.HasSuffix(got, []byte(want)) {
		t.Errorf("the end is %q, want %q", got[max(0, len(got)-100):], want)
	}
}

// A reader who never reads does not keep the process from ending.
func TestAsyncWriterWithoutReader(t *testing.T) {
	t.Parallel()
	reader, terminal := io.Pipe()
	r := NewAsyncWriter(terminal)
	fmt.Fprintln(r, "nobody reads this")
	r.Close()
	_ = reader.Close()
	<-r.over
}
