package pgtest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby makes a second server that follows c, from a copy of it. Once it returns, each commit
// of c waits until the standby has it on disk, so c has to be durable.
func (c *Cluster) Standby(ctx context.Context) (*Cluster, error) {
	if !c.durable {
		return nil, fmt.Errorf("a standby: the commits of a cluster that is not durable wait for nothing")
	}
	s := &Cluster{bin: c.bin, durable: true}
	err := s.follow(ctx, c)
	if err == nil {
		err = c.commitWith(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// follow copies a primary and starts a server on the copy.
func (c *Cluster) follow(ctx context.Context, primary *Cluster) error {
	if err := c.makeFolder(); err != nil {
		return err
	}
	backup := c.command(ctx, "pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(primary.port), "-U", "postgres",
		"-D", c.data(), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := c.pickPort(); err != nil {
		return err
	}
	return c.serve(ctx)
}

// commitWith makes commits wait for a standby, and waits until there is one.
func (c *Cluster) commitWith(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{"alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var following int
		if err := conn.QueryRow(ctx, "select count(*) from pg_stat_replication where sync_state = 'sync'").Scan(&following); err != nil || following > 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no standby follows: %w", ctx.Err())
		}
	}
}

// Promote makes a standby the primary, and waits until it is.
func (c *Cluster) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var promoted bool
	if err := conn.QueryRow(ctx, "select pg_promote()").Scan(&promoted); err != nil || !promoted {
		return fmt.Errorf("pg_promote: %v, %w", promoted, err)
	}
	return nil
}
