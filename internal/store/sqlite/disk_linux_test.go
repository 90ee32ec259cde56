package sqlite

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/health"
)

// A share cannot be mounted here: the numbers of statfs(2) are judged.
func TestFileSystems(t *testing.T) {
	t.Parallel()
	for magic, want := range map[int64]health.Severity{
		unix.NFS_SUPER_MAGIC: health.Problem, unix.CIFS_SUPER_MAGIC: health.Problem, unix.V9FS_MAGIC: health.Problem,
		unix.FUSE_SUPER_MAGIC: health.Warning, unix.EXT4_SUPER_MAGIC: health.OK, unix.TMPFS_MAGIC: health.OK,
	} {
		if _, got := judge(magic); got != want {
			t.Errorf("%x is %q, want %q", magic, got, want)
		}
	}
}
