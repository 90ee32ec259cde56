package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/health"
)

// shares are the file systems on which SQLite's locks do not work, by the magic
// number that statfs(2) returns.
var shares = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.V9FS_MAGIC:        "9P",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
}

// fileSystem names the file system of a file, and says how bad that is.
func fileSystem(path string) (string, health.Severity, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", health.OK, fmt.Errorf("ask for the file system of %s: %w", path, err)
	}
	kind, severity := judge(int64(s.Type))
	return kind, severity, nil
}

func judge(magic int64) (string, health.Severity) {
	if name := shares[magic]; name != "" {
		return "a network share (" + name + ")", health.Problem
	}
	if magic == unix.FUSE_SUPER_MAGIC {
		return "a FUSE file system, which may be a network share", health.Warning
	}
	return "", health.OK
}

// freeSpace returns how many bytes are free on the disk of a folder.
func freeSpace(dir string) (free int64, known bool, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false, fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, true, nil
}
