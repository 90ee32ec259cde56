package crew

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/lifecycle"
)

// BenchmarkChanges measures changes of one member, and of 16 at once, beside what the disk allows: a line
// that is appended and synced, and a file that is written, synced and renamed, with its folder. The metric
// is per second, of all members.
func BenchmarkChanges(b *testing.B) {
	for _, members := range []int{1, 16} {
		b.Run(fmt.Sprintf("members=%d/changes", members), func(b *testing.B) {
			f, err := Create(filepath.Join(b.TempDir(), FolderName))
			if err != nil {
				b.Fatal(err)
			}
			for i := range members {
				if _, err := f.Spawn(b.Context(), fmt.Sprint("m", i), Move{Actor: "ann"}); err != nil {
					b.Fatal(err)
				}
			}
			events := []Move{{Event: lifecycle.MemberAssign, Actor: "ann"}, {Event: lifecycle.MemberCancel, Actor: "ann"}, {Event: lifecycle.MemberReset, Actor: "ann"}}
			measure(b, members, func(member, n int) error {
				move := events[n%len(events)]
				_, err := f.Change(b.Context(), fmt.Sprint("m", member), func(*Member) (*Move, error) { return &move, nil })
				return err
			})
		})
		b.Run(fmt.Sprintf("members=%d/disk", members), func(b *testing.B) {
			dir := b.TempDir()
			line, state := make([]byte, 900), make([]byte, 600) // as large as those of a change
			logs := make([]*os.File, members)
			for i := range logs {
				var err error
				if logs[i], err = os.Create(filepath.Join(dir, fmt.Sprint(i, ".jsonl"))); err != nil {
					b.Fatal(err)
				}
				defer logs[i].Close()
			}
			measure(b, members, func(member, _ int) error { return limit(dir, fmt.Sprint(member), logs[member], line, state) })
		})
	}
}

// measure calls do for each member from a goroutine of its own, b.N times in all.
func measure(b *testing.B, members int, do func(member, n int) error) {
	b.Helper()
	each := max(1, b.N/members)
	var all sync.WaitGroup
	b.ResetTimer()
	for member := range members {
		all.Go(func() {
			for n := range each {
				if err := do(member, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(each*members)/b.Elapsed().Seconds(), "changes/s")
}

// limit is what a change has to do at least.
func limit(dir, name string, log *os.File, line, state []byte) error {
	if _, err := log.Write(line); err != nil {
		return err
	}
	if err := log.Sync(); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(state); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
