package programs

import (
	"bytes"
	"io"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// maxLine is the length at which a line that does not end is taken for whole.
const maxLine = 64 << 10

// logPath answers the file of what a program prints.
func (k *Keeper) logPath(p *spec.Program) string {
	if p.Log.File != "" {
		return p.Log.File
	}
	return filepath.Join(k.config.State, p.ID+".log")
}

// log answers the file for what the program prints. Another run may print into
// another one.
func (w *ward) log(p *spec.Program) *process.LogFile {
	c := process.LogConfig{Path: w.keeper.logPath(p), MaxSize: p.Log.MaxSize, MaxFiles: p.Log.MaxFiles}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil || w.kept != c {
		w.closeLog()
		w.file, w.kept = process.OpenLog(c), c
	}
	return w.file
}

// printing answers the file that is printed to.
func (w *ward) printing() *process.LogFile {
	w.mu.Lock()
	file, p := w.file, w.wish.Program
	w.mu.Unlock()
	if file != nil {
		return file
	}
	return w.log(p)
}

// closeLog is called with mu held, or when nothing prints any more.
func (w *ward) closeLog() {
	if w.file != nil {
		_ = w.file.Close() // what it could not keep is in the file
		w.file = nil
	}
}

// lines hands on what a program prints by whole lines, so that its streams do not
// mix within one.
type lines struct {
	to   io.Writer
	each func(line []byte)
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) >= maxLine {
		end = len(l.rest)
	}
	l.pass(end)
	return len(b), nil
}

// flush hands on a last line without an end.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.rest = append(l.rest, '\n')
		l.pass(len(l.rest))
	}
}

func (l *lines) pass(end int) {
	if end == 0 {
		return
	}
	_, _ = l.to.Write(l.rest[:end]) // which does not fail
	for line := range bytes.Lines(l.rest[:end]) {
		l.each(bytes.TrimRight(line, "\r\n"))
	}
	l.rest = append(l.rest[:0], l.rest[end:]...)
}

// writer answers where a stream of a run goes: the log, who wants it, and the probe
// that waits for a line.
func (w *ward) writer(r *run, stream string, to io.Writer) *lines {
	printed := w.keeper.config.Printed
	return &lines{to: to, each: func(line []byte) {
		if printed != nil {
			printed(w.id, stream, line)
		}
		if p := r.awaits.Load(); p != nil && p.of.Log.Match(line) && r.awaits.CompareAndSwap(p, nil) {
			w.answered(r, p, nil)
		}
	}}
}
