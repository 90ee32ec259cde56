//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// Plan returns what a job would create and whether it could be done, without leaving anything behind.
// It writes a little to a file without a name to estimate the time. Manifest and RunID are not needed.
func Plan(ctx context.Context, job Job) (*loadpb.Plan, []*loadpb.Error) {
	if job.RunID == "" {
		job.RunID = "plan"
	}
	l, err := newLayout(job)
	if err != nil {
		return nil, []*loadpb.Error{proto(err, loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID)}
	}
	n, err := l.need(ctx)
	if err != nil {
		return nil, []*loadpb.Error{proto(err, loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID)}
	}
	plan := &loadpb.Plan{Files: n.files, Folders: n.folders, Bytes: n.bytes, RunSeconds: (l.test.Warmup + l.test.Duration).Seconds()}
	if l.test.Duration == 0 && l.test.Rate != nil {
		plan.RunSeconds += float64(l.test.Count) / l.test.Rate.Operations
	}
	var faults []*loadpb.Error
	fail := func(err error) {
		if err != nil {
			faults = append(faults, proto(err, loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID))
		}
	}
	fail(n.check(job))
	fail(l.buffers())
	if l.store != nil {
		plan.FileSystem = "s3"
		fail(l.reach())
		return plan, faults
	}
	var v terrain
	var where string
	err = again(func() error { // a run that ends may delete the folder
		at, err := l.nearest()
		if err != nil {
			return err
		}
		defer at.close()
		where = at.name
		v, err = survey(at, true)
		return err
	})
	if err != nil {
		fail(err)
		return plan, faults
	}
	plan.FreeBytes, plan.FileSystem, plan.DirectAlignment = v.free, v.name, uint32(v.align)
	if v.speed > 0 {
		plan.PrepareSeconds = float64(n.blocks) / v.speed
	}
	fail(v.room(n, where))
	if l.test.Direct {
		fail(v.direct())
	}
	return plan, faults
}

// nearest opens the deepest folder of the target's path that exists.
func (l *layout) nearest() (*folder, error) {
	root, err := openRoot(l.job.Root)
	if err != nil {
		return nil, err
	}
	defer root.close()
	for at := l.target; ; at = path.Dir(at) {
		f, err := root.open(at)
		if err == nil || classOf(err) != notFound || at == "." {
			return f, err
		}
	}
}

// A terrain is what there is to know about the file system of a folder.
type terrain struct {
	name  string
	free  uint64
	align int     // of direct I/O; 0 if there is none
	speed float64 // bytes in a second of a short write; 0 if it is not known
}

// probeBytes is how much a survey writes.
const probeBytes = 8 << 20

// survey examines a file system, and measures its speed on demand.
func survey(f *folder, measure bool) (terrain, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &st); err != nil {
		return terrain{}, pathFault("examine", f.name, err)
	}
	v := terrain{name: fileSystem(int64(st.Type)), free: st.Bavail * uint64(st.Bsize)}
	fd, err := openBeneath(f.fd, ".", unix.O_TMPFILE|unix.O_RDWR, fileMode)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		v.align = page // such as NFS, which has direct I/O; opening will show
		return v, nil
	case err != nil && f.deleted():
		return terrain{}, pathFault("create a file in", f.name, unix.ENOENT) // ext4 says that it is not permitted
	case err != nil:
		return terrain{}, pathFault("create a file in", f.name, err)
	}
	defer unix.Close(fd)
	v.align = alignment(fd, int64(st.Type))
	if measure {
		v.speed = speed(fd)
	}
	return v, nil
}

// alignment returns what direct I/O on a file has to be aligned to, or 0 if there is none.
func alignment(fd int, fileSystem int64) int {
	if fileSystem == unix.TMPFS_MAGIC || fileSystem == unix.RAMFS_MAGIC {
		return 0 // it takes the flag and has nothing but memory
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st); err == nil && st.Mask&unix.STATX_DIOALIGN != 0 {
		return int(max(st.Dio_mem_align, st.Dio_offset_align))
	}
	return page // an older kernel: what every block device takes
}

// speed writes a little and returns how fast that was.
func speed(fd int) float64 {
	c, err := newContent(1, 0, 1<<20)
	if err != nil {
		return 0
	}
	defer c.free()
	began := time.Now()
	for at := int64(0); at < probeBytes; at += 1 << 20 {
		if n, err := unix.Pwrite(fd, c.at(1, at, 1<<20), at); err != nil || n < 1<<20 {
			return 0
		}
	}
	if unix.Fdatasync(fd) != nil {
		return 0
	}
	return probeBytes / time.Since(began).Seconds()
}

// room compares a need with the free space.
func (v terrain) room(n need, where string) error {
	if n.blocks <= v.free {
		return nil
	}
	return &fault{loadpb.ErrorCode_ERROR_CODE_NO_SPACE, "files", "make the files fewer or smaller, or free some space",
		fmt.Errorf("the files have %d bytes, and %d are free in %s", n.blocks, v.free, where)}
}

func (v terrain) direct() error {
	if v.align > 0 {
		return nil
	}
	return invalid("direct", "set direct: false, or choose a target on a disk", "direct: the file system %s of the target has no direct I/O", v.name)
}

// fileSystem returns the name of a file system, or its number.
func fileSystem(kind int64) string {
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
		unix.RAMFS_MAGIC: "ramfs", unix.NFS_SUPER_MAGIC: "nfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.F2FS_SUPER_MAGIC: "f2fs",
		unix.FUSE_SUPER_MAGIC: "fuse", unix.CEPH_SUPER_MAGIC: "ceph", unix.SMB2_SUPER_MAGIC: "smb", unix.V9FS_MAGIC: "9p",
		0x2fc12fc1: "zfs", 0x0bd00bd0: "lustre",
	}
	if name := names[kind]; name != "" {
		return name
	}
	return fmt.Sprintf("%#x", kind)
}
