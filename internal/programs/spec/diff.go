package spec

import (
	"maps"
	"reflect"
	"slices"
)

// What happens to a service from one file to another.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// A Difference is a service that differs between two files.
type Difference struct {
	ID      string
	What    string   // Added, Changed or Removed
	Keys    []string // of a changed service: the keys that differ, in the order of the reference
	Restart bool     // of a changed service: its program has to be restarted
}

// Diff returns what changes from old to new, by id. nil is a file without services.
func Diff(old, new *File) []Difference {
	before, after := byID(old), byID(new)
	ids := map[string]bool{}
	for _, programs := range []map[string]*Program{before, after} {
		for id := range programs {
			ids[id] = true
		}
	}
	var out []Difference
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		a, b := before[id], after[id]
		switch {
		case a == nil:
			out = append(out, Difference{ID: id, What: Added})
		case b == nil:
			out = append(out, Difference{ID: id, What: Removed})
		default:
			if keys, restart := changes(a, b); len(keys) > 0 {
				out = append(out, Difference{id, Changed, keys, restart})
			}
		}
	}
	return out
}

func byID(f *File) map[string]*Program {
	m := map[string]*Program{}
	if f != nil {
		for _, p := range f.Programs {
			m[p.ID] = p
		}
	}
	return m
}

// changes returns the keys in which two versions of a service differ, and whether its
// program has to be restarted: it was started with one of them, or reports only once what
// a new probe waits for.
func changes(a, b *Program) (keys []string, restart bool) {
	for _, k := range []struct {
		key     string
		same    bool
		restart bool
	}{
		{"description", a.Description == b.Description, false},
		{workKey(b), slices.Equal(a.Command, b.Command), true},
		{"dir", a.Dir == b.Dir, true},
		{"env", maps.Equal(a.Env, b.Env), true},
		{"pass", slices.Equal(a.Pass, b.Pass), true},
		{"user", a.User == b.User, true},
		{"group", a.Group == b.Group, true},
		{"autostart", a.Autostart == b.Autostart, false},
		{"needs", slices.Equal(a.Needs, b.Needs), false},
		{"ready", sameProbe(a.Ready, b.Ready), b.Ready != nil && (b.Ready.Notify || b.Ready.Log != nil)},
		{"alive", sameProbe(a.Alive, b.Alive), a.Watchdog() != b.Watchdog()},
		{"start", a.Start == b.Start, false},
		{"restart", sameRestart(a.Restart, b.Restart), false},
		{"stop", a.Stop == b.Stop, false},
		{"log", a.Log == b.Log, true},
		{"limits", reflect.DeepEqual(a.Limits, b.Limits), true},
	} {
		if !k.same {
			keys, restart = append(keys, k.key), restart || k.restart
		}
	}
	return keys, restart
}

// workKey returns the key that says what a service runs.
func workKey(p *Program) string {
	if len(p.Command) == len(shell)+1 && slices.Equal(p.Command[:len(shell)], shell) {
		return "run"
	}
	return "command"
}

func sameProbe(a, b *Probe) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Command, y.Command, x.Log, y.Log = nil, nil, nil, nil
	return reflect.DeepEqual(x, y) && slices.Equal(a.Command, b.Command) && pattern(a) == pattern(b)
}

func pattern(p *Probe) string {
	if p.Log == nil {
		return ""
	}
	return p.Log.String()
}

func sameRestart(a, b Restart) bool {
	x, y := a, b
	x.PermanentExitCodes, y.PermanentExitCodes = nil, nil
	return reflect.DeepEqual(x, y) && slices.Equal(a.PermanentExitCodes, b.PermanentExitCodes)
}
