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

// Programs are started in a control group of the keeper, below the supervisor's own, where
// the system lets it make one. What they start stays in it, so that the next keeper of the
// state folder finds all of it, though the supervisor was killed and though it carries no
// mark. The folder says where the group is: the next supervisor may be started elsewhere.

// cgroupName is the name of the control group. It is of the state folder itself: another
// one of the same path, in a container or a changed root, has another.
func (k *Keeper) cgroupName() string {
	place := k.config.State
	if info, err := os.Stat(place); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			place += fmt.Sprintf("//%d/%d", s.Dev, s.Ino)
		}
	}
	sum := sha256.Sum256([]byte(place))
	return fmt.Sprintf("pawl-%x", sum[:8])
}

func (k *Keeper) cgroupRecord() string { return filepath.Join(k.config.State, "cgroup") }

// confine makes the control group for the programs. Without one they are started in the
// supervisor's.
func (k *Keeper) confine() {
	own, err := process.OwnCgroup()
	if err == nil {
		k.cgroup, err = process.OpenCgroup(filepath.Join(own, k.cgroupName()))
	}
	if err != nil {
		k.config.Log.Debug("programs have no control group of their own", "reason", err)
		return
	}
	if err := os.WriteFile(k.cgroupRecord(), []byte(filepath.Join(own, k.cgroupName())+"\n"), 0o600); err != nil {
		k.config.Log.Warn("the control group of the programs could not be noted", "error", err)
	}
}

// releaseTimeout bounds the wait for what is killed at the end.
const releaseTimeout = time.Second

// release kills what the programs have left in the control group, and removes it. What
// does not end in time is the next keeper's to kill.
func (k *Keeper) release() {
	if k.cgroup == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_, err := process.KillCgroup(ctx, k.cgroup.Path())
	if err = errors.Join(err, k.cgroup.Close()); err != nil {
		k.config.Log.Warn("the control group of the programs was not removed", "error", err)
	}
}

// sweepCgroups kills what is in the control group of an earlier keeper of the state
// folder, and returns how many processes that were.
func (k *Keeper) sweepCgroups(ctx context.Context) (int, error) {
	own, err := process.OwnCgroup()
	if err != nil {
		return 0, nil // there was none, then
	}
	noted, err := os.ReadFile(k.cgroupRecord())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.config.Log.Warn("where an earlier supervisor had its control group cannot be read", "error", err)
	}
	killed := 0
	var faults error
	for _, path := range []string{filepath.Join(own, k.cgroupName()), strings.TrimSuffix(string(noted), "\n")} {
		if filepath.Base(path) != k.cgroupName() {
			continue // it is of another folder, which this one is a copy of
		}
		n, err := process.KillCgroup(ctx, path)
		if errors.Is(err, process.ErrOwnCgroup) { // one of its programs has started this supervisor
			k.config.Log.Warn("what an earlier supervisor has left in its control group is not killed: this one is in it", "cgroup", path)
			err = nil
		}
		killed, faults = killed+n, errors.Join(faults, err)
	}
	return killed, faults
}
