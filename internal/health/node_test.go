package health

import (
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestEvaluated: a server counts while it is heard from, any other process while its worker
// lives, unless that is all that it has.
func TestEvaluated(t *testing.T) { // J9
	t.Parallel()
	const now = 100_000_000
	late := now - (2 * NodeBeat).Microseconds()
	worker := []*pawl.Worker{{Host: "h", PID: 1}}
	for _, tt := range []struct {
		name   string
		nodes  []*pawl.Node
		living []*pawl.Worker
		want   bool
	}{
		{"nothing", nil, nil, false},
		{"a server", []*pawl.Node{{Role: RoleServer, BeatAt: late + 1}}, nil, true},
		{"a silent server", []*pawl.Node{{Role: RoleServer, BeatAt: late}}, nil, false},
		{"a worker process", []*pawl.Node{{Role: RoleWorker, Host: "h", PID: 1, BeatAt: now}}, worker, false},
		{"dev", []*pawl.Node{{Role: RoleDev, Host: "h", PID: 1, BeatAt: now}}, worker, true},
		{"dev without its worker", []*pawl.Node{{Role: RoleDev, Host: "h", PID: 1, BeatAt: now}}, nil, false},
		{"a worker of an unknown process", []*pawl.Node{{Role: RoleWorker, Host: "h", PID: 2, BeatAt: now}}, worker, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Evaluated(tt.nodes, tt.living, now); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}
