package postgres

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"
)

// TestConnectionsAreImpatient: the system gives a connection up whose other end is
// silent, in seconds and not in a quarter of an hour (T10).
func TestConnectionsAreImpatient(t *testing.T) {
	t.Parallel()
	err := fresh(t).pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		raw, err := c.Conn().PgConn().Conn().(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		for option, want := range map[int]int{
			unix.TCP_USER_TIMEOUT: int(silenceLimit.Milliseconds()), unix.TCP_KEEPIDLE: int(tcp.Idle.Seconds()),
			unix.TCP_KEEPINTVL: int(tcp.Interval.Seconds()), unix.TCP_KEEPCNT: tcp.Count,
		} {
			err := raw.Control(func(fd uintptr) {
				if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option); err != nil || got != want {
					t.Errorf("option %d is %d, %v; want %d", option, got, err, want)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
