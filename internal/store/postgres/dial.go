package postgres

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// connectLimit bounds the time to connect, unless connect_timeout in the URL does.
	connectLimit = 10 * time.Second

	// silenceLimit is how long the server's host may leave sent data unacknowledged before the
	// connection is given up, if the platform supports it.
	silenceLimit = 15 * time.Second
)

// tcp makes a connection notice within seconds that the host at its other end has vanished,
// even if nothing is sent.
var tcp = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// reach sets how connections to the server are made.
func reach(c *pgconn.Config) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectLimit
	}
	d := &net.Dialer{Timeout: c.ConnectTimeout, KeepAliveConfig: tcp, Control: impatient}
	c.DialFunc = d.DialContext
}

// reachBy is reach with another dialer.
func reachBy(c *pgconn.Config, dial pgconn.DialFunc) {
	reach(c)
	if dial == nil {
		return
	}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if t, ok := conn.(*net.TCPConn); ok && err == nil {
			_ = t.SetKeepAliveConfig(tcp)
			if raw, err := t.SyscallConn(); err == nil {
				_ = impatient(network, address, raw)
			}
		}
		return conn, err
	}
}
