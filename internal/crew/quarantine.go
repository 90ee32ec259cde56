package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const quarantineDir = "quarantine"

// quarantine names the members whose state their history does not lead to, and replaces that state by the one
// that it does lead to. What was there is kept.
func (c *Crew) quarantine(ctx context.Context, p Patrol) (list []Finding, err error) {
	ids, err := c.Members()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if one := c.quarantineOne(ctx, id, p.Fix); one != nil {
			list = append(list, *one)
		}
	}
	return list, nil
}

func (f *Folder) quarantineOne(ctx context.Context, id string, fix bool) *Finding {
	lock, err := f.take(ctx, id)
	if err != nil {
		return nil // judgeAll names it
	}
	defer lock.Release()
	var tampered *TamperedError
	if _, _, err = f.settle(id); !errors.As(err, &tampered) {
		return nil
	}
	_, recorded, damaged := f.lastRow(id)
	if damaged != nil {
		return nil // likewise: there is nothing to put in its place
	}
	one := &Finding{Member: id, Action: actionQuarantine, Text: tampered.Error()}
	if fix {
		one.did(f.restore(id, recorded))
	}
	return one
}

// restore moves the state of a member away, and publishes the recorded one, if there is one.
func (f *Folder) restore(id string, recorded *Member) error {
	dir := filepath.Join(f.Dir, quarantineDir)
	if err := f.Disk.MakeDir(dir); err != nil {
		return err
	}
	name := fmt.Sprintf("%s.%s.json", id, f.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := os.Rename(f.state(id), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if recorded == nil {
		return nil
	}
	return f.publish(recorded)
}
