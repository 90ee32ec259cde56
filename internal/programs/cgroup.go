package programs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/process"
)

// Where the system allows it, programs start in a control group below the supervisor's.
// What they start stays in it, so that the next manager of the state folder can kill all
// of it, even if the supervisor was killed and a process has lost its mark. The file
// "cgroup" in the state folder records the path, since the next supervisor may start in
// another control group.

// cgroupName returns the name of the control group. It depends on the identity of the
// state folder, not only on its path: the same path in a container or a chroot is another
// folder.
func (m *Manager) cgroupName() string {
	place := m.config.State
	if info, err := os.Stat(place); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			place += fmt.Sprintf("//%d/%d", s.Dev, s.Ino)
		}
	}
	sum := sha256.Sum256([]byte(place))
	return fmt.Sprintf("pawl-%x", sum[:8])
}

func (m *Manager) cgroupRecord() string { return filepath.Join(m.config.State, "cgroup") }

// openCgroup creates the control group of the programs. Where it cannot, they start in the
// supervisor's own.
func (m *Manager) openCgroup() {
	own, err := process.OwnCgroup()
	if err == nil {
		m.cgroup, err = process.OpenCgroup(filepath.Join(own, m.cgroupName()))
	}
	if err != nil {
		m.config.Log.Debug("programs have no control group of their own", "reason", err)
		return
	}
	if err := os.WriteFile(m.cgroupRecord(), []byte(filepath.Join(own, m.cgroupName())+"\n"), 0o600); err != nil {
		m.config.Log.Warn("the path of the programs' control group could not be recorded", "error", err)
	}
}

// cgroupKillTimeout limits how long closeCgroup waits for killed processes to end.
const cgroupKillTimeout = time.Second

// closeCgroup kills what the programs have left in the control group, and removes it. What
// does not end in time is left to the next manager.
func (m *Manager) closeCgroup() {
	if m.cgroup == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cgroupKillTimeout)
	defer cancel()
	_, err := process.KillCgroup(ctx, m.cgroup.Path())
	if err = errors.Join(err, m.cgroup.Close()); err != nil {
		m.config.Log.Warn("the control group of the programs was not removed", "error", err)
	}
}

// sweepCgroups kills the processes in the control group of an earlier manager of the state
// folder, and returns how many there were.
func (m *Manager) sweepCgroups(ctx context.Context) (int, error) {
	own, err := process.OwnCgroup()
	if err != nil {
		return 0, nil // where there are no control groups, the earlier one had none either
	}
	recorded, err := os.ReadFile(m.cgroupRecord())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.config.Log.Warn("the record of an earlier supervisor's control group cannot be read", "error", err)
	}
	killed := 0
	var faults error
	for _, path := range []string{filepath.Join(own, m.cgroupName()), strings.TrimSuffix(string(recorded), "\n")} {
		if filepath.Base(path) != m.cgroupName() {
			continue // recorded for another state folder, of which this one is a copy
		}
		n, err := process.KillCgroup(ctx, path)
		if errors.Is(err, process.ErrOwnCgroup) { // a program of the earlier supervisor has started this one
			m.config.Log.Warn("processes of an earlier supervisor are not killed, since this supervisor runs in the same control group", "cgroup", path)
			err = nil
		}
		killed, faults = killed+n, errors.Join(faults, err)
	}
	return killed, faults
}
