package programs

import (
	"bytes"
	"io"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// maxLine is the length at which a line is passed on though it has not ended.
const maxLine = 64 << 10

// logPath returns the path of the log of a program.
func (m *Manager) logPath(p *spec.Program) string {
	if p.Log.File != "" {
		return p.Log.File
	}
	return filepath.Join(m.config.State, p.ID+".log")
}

// log returns the log of the program. It opens another one if the spec says so since the
// last run.
func (prog *program) log(p *spec.Program) *process.LogFile {
	c := process.LogConfig{Path: prog.manager.logPath(p), MaxSize: p.Log.MaxSize, MaxFiles: p.Log.MaxFiles}
	prog.mu.Lock()
	defer prog.mu.Unlock()
	if prog.logFile == nil || prog.logConfig != c {
		prog.closeLog()
		prog.logFile, prog.logConfig = process.OpenLog(c), c
	}
	return prog.logFile
}

// printing returns the log that is written to now.
func (prog *program) printing() *process.LogFile {
	prog.mu.Lock()
	file, p := prog.logFile, prog.desired.Spec
	prog.mu.Unlock()
	if file != nil {
		return file
	}
	return prog.log(p)
}

// closeLog is called with mu held.
func (prog *program) closeLog() {
	if prog.logFile != nil {
		_ = prog.logFile.Close() // what it could not write is noted in the file
		prog.logFile = nil
	}
}

// A lineWriter passes on what a program prints in whole lines, so that its two streams do
// not mix within a line.
type lineWriter struct {
	to   io.Writer
	each func(line []byte)
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lineWriter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) >= maxLine {
		end = len(l.rest)
	}
	l.pass(end)
	return len(b), nil
}

// flush passes on a last line that has no newline.
func (l *lineWriter) flush() {
	if len(l.rest) > 0 {
		l.rest = append(l.rest, '\n')
		l.pass(len(l.rest))
	}
}

func (l *lineWriter) pass(end int) {
	if end == 0 {
		return
	}
	_, _ = l.to.Write(l.rest[:end]) // which does not fail
	for line := range bytes.Lines(l.rest[:end]) {
		l.each(bytes.TrimRight(line, "\r\n"))
	}
	l.rest = append(l.rest[:0], l.rest[end:]...)
}

// writer returns the writer for one stream of a run: it writes to the log, and calls
// Printed and the log probe with each line.
func (prog *program) writer(r *run, stream string, to io.Writer) *lineWriter {
	printed := prog.manager.config.Printed
	return &lineWriter{to: to, each: func(line []byte) {
		if printed != nil {
			printed(prog.id, stream, line)
		}
		if p := r.logProbe.Load(); p != nil && p.spec.Log.Match(line) && r.logProbe.CompareAndSwap(p, nil) {
			prog.recordResult(r, p, nil)
		}
	}}
}
