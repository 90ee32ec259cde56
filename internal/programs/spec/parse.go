package spec

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/document"
)

// MaxSource is the largest file, in bytes.
const MaxSource = document.MaxSource

// hints are about the YAML of a file.
var hints = document.Hints{
	Empty:   "a file has at least services",
	Several: "one file is one supervisor: split it at ---",
	Tag:     "quote the text if it begins with !",
}

// Parse parses a file, one YAML document of at most MaxSource bytes. Relative paths in
// it are relative to the folder of path, so that Path, Dir and Log.File are absolute if
// path is. The error is of type document.Problems: all faults, in the order of the
// file, each prefixed with path.
func Parse(path string, src []byte) (*File, error) {
	e := document.NewExaminer(path)
	root := document.Read(e, src, hints)
	if root == nil {
		return nil, e.Problems
	}
	normal, _ := e.Examine("", root, fileShape)
	if len(e.Problems) > 0 {
		e.Problems.Sort()
		return nil, e.Problems
	}
	return fileOf(path, normal.(map[string]any)), nil
}

// within returns a path relative to the folder of the file at path.
func within(path, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(filepath.Dir(path), name)
}

// fileOf returns the File of a normalised mapping.
func fileOf(path string, m map[string]any) *File {
	f := &File{Name: text(m, "name"), Path: filepath.Clean(path)}
	services := object(m, "services")
	for _, id := range slices.Sorted(maps.Keys(services)) {
		p := programOf(path, object(services, id))
		p.ID, p.Env = id, joined(object(m, "env"), p.Env)
		f.Programs = append(f.Programs, p)
	}
	return f
}

func programOf(path string, m map[string]any) *Program {
	p := &Program{
		Description: text(m, "description"),
		Command:     texts(m, "command"),
		Dir:         within(path, text(m, "dir")),
		Env:         joined(object(m, "env"), nil),
		Pass:        texts(m, "pass"),
		User:        text(m, "user"),
		Group:       text(m, "group"),
		Autostart:   m["autostart"] == true,
		Ready:       probeOf(object(m, "ready")),
		Alive:       probeOf(object(m, "alive")),
		Start:       Start{duration(object(m, "start"), "timeout")},
		Restart:     restartOf(object(m, "restart")),
		Stop:        Stop{text(object(m, "stop"), "signal"), duration(object(m, "stop"), "grace")},
		Log:         logOf(path, object(m, "log")),
		Limits:      limitsOf(object(m, "limits")),
	}
	if script, ok := m["run"].(string); ok {
		p.Command = append(slices.Clone(shell), script)
	}
	needs, _ := m["needs"].([]need)
	for _, n := range needs {
		p.Needs = append(p.Needs, n.Need)
	}
	slices.SortFunc(p.Needs, func(a, b Need) int { return cmp.Compare(a.ID, b.ID) })
	return p
}

// shell runs a script, which is its last argument.
var shell = []string{"/bin/sh", "-e", "-c"}

func probeOf(m map[string]any) *Probe {
	if m == nil {
		return nil
	}
	p := &Probe{
		Command: texts(m, "command"), HTTP: text(m, "http"), TCP: text(m, "tcp"), Notify: m["notify"] == true,
		Interval: duration(m, "interval"), Timeout: duration(m, "timeout"),
		Successes: max(1, integer(m, "successes")), Failures: integer(m, "failures"),
	}
	if pattern, ok := m["log"].(string); ok {
		p.Log = regexp.MustCompile(pattern)
	}
	return p
}

func restartOf(m map[string]any) Restart {
	codes := []int{}
	for _, code := range m["permanent_exit_codes"].([]any) {
		codes = append(codes, code.(int))
	}
	slices.Sort(codes)
	return Restart{
		Policy: Policy(text(m, "policy")), Base: duration(m, "base"), Cap: duration(m, "cap"), Jitter: m["jitter"] == "full",
		Burst: integer(m, "burst"), Window: duration(m, "window"), Reset: duration(m, "reset"),
		PermanentExitCodes: slices.Compact(codes),
	}
}

func logOf(path string, m map[string]any) Log {
	l := Log{MaxSize: int64(*size(m, "max_size")), MaxFiles: integer(m, "max_files")}
	if file := text(m, "file"); file != "" {
		l.File = within(path, file)
	}
	return l
}

func limitsOf(m map[string]any) Limits {
	l := Limits{
		OpenFiles: count(m, "open_files"), Processes: count(m, "processes"),
		AddressSpace: size(m, "address_space"), FileSize: size(m, "file_size"), CoreSize: size(m, "core_size"),
		CPUTime: duration(m, "cpu_time"),
	}
	if nice, ok := m["nice"].(int); ok {
		l.Nice = &nice
	}
	return l
}

// What follows reads normalised values; a missing one is zero.

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func integer(m map[string]any, key string) int {
	n, _ := m[key].(int)
	return n
}

func object(m map[string]any, key string) map[string]any {
	o, _ := m[key].(map[string]any)
	return o
}

func duration(m map[string]any, key string) time.Duration {
	d, _ := time.ParseDuration(text(m, key))
	return d
}

func texts(m map[string]any, key string) []string {
	list, _ := m[key].([]any)
	var out []string
	for _, s := range list {
		out = append(out, s.(string))
	}
	return out
}

func count(m map[string]any, key string) *uint64 {
	n, ok := m[key].(int)
	if !ok {
		return nil
	}
	u := uint64(n)
	return &u
}

func size(m map[string]any, key string) *uint64 {
	s, ok := m[key].(string)
	if !ok {
		return nil
	}
	n, _ := parseSize(s)
	u := uint64(n)
	return &u
}

// joined returns variables, overridden by env.
func joined(variables map[string]any, env map[string]string) map[string]string {
	out := make(map[string]string, len(variables)+len(env))
	for name, value := range variables {
		out[name] = value.(string)
	}
	maps.Copy(out, env)
	return out
}
