package sqlite

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/doctor"
)

// A share cannot be mounted here: the numbers of statfs(2) are judged.
func TestFileSystems(t *testing.T) {
	t.Parallel()
	for magic, want := range map[int64]doctor.Severity{
		unix.NFS_SUPER_MAGIC: doctor.Problem, unix.CIFS_SUPER_MAGIC: doctor.Problem, unix.V9FS_MAGIC: doctor.Problem,
		unix.FUSE_SUPER_MAGIC: doctor.Warning, unix.EXT4_SUPER_MAGIC: doctor.OK, unix.TMPFS_MAGIC: doctor.OK,
	} {
		if _, got := judge(magic); got != want {
			t.Errorf("%x is %q, want %q", magic, got, want)
		}
	}
}
