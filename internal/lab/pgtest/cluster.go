package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/lab/ramdisk"
)

// A Cluster is a temporary PostgreSQL server with a folder of its own.
type Cluster struct {
	URL string // of its database postgres

	dir     *durable.Scratch
	account *syscall.Credential // nil: the account of this process
	bin     string
	port    int
	durable bool
	server  *exec.Cmd
	exited  chan struct{} // closed when the server has ended
}

// Start makes a cluster in a new folder and waits until it responds. Without durable the
// server does not flush to disk, and its folder is in memory if 6 GiB are free there and TMPDIR is
// not set: for tests. With durable every commit reaches the disk, as in production: for benchmarks,
// and for tests that kill the server. It first removes the folders of clusters whose process was
// killed.
func Start(ctx context.Context, durable bool) (*Cluster, error) {
	bin, err := Binaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, durable: durable}
	if err := c.prepare(ctx); err != nil {
		c.remove()
		return nil, err
	}
	if err = c.pickPort(); err != nil {
		c.remove()
		return nil, err
	}
	if err := c.serve(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// pickPort sets the address, for all starts.
func (c *Cluster) pickPort() (err error) {
	if c.port, err = freePort(); err == nil {
		c.URL = address(c.port, "postgres")
	}
	return err
}

// prepare makes the folder and the empty cluster in it, owned by the account that runs the server. PostgreSQL refuses to run as root.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.makeFolder(); err != nil {
		return err
	}
	initdb := c.command(ctx, "initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C", "-D", c.data())
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// folders is the pattern of the names of the clusters' folders.
const folders = "pawl-postgres-*"

// memoryRoom is the least room for a cluster in memory, in bytes: some hundred databases of tests
// with their log, each of hundreds of files. Containers often have 64 MiB.
const memoryRoom = 6 << 30

// makeFolder makes the folder and in it an empty one for the data, which is the server's.
func (c *Cluster) makeFolder() (err error) {
	if err := c.pickAccount(); err != nil {
		return err
	}
	if c.durable {
		c.dir, err = ramdisk.OnDisk(folders)
	} else {
		c.dir, err = ramdisk.New(folders, memoryRoom)
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(c.data(), 0o700); err != nil || c.account == nil {
		return err
	}
	// The folder stays this account's: no other sweeps it.
	return errors.Join(os.Chmod(c.dir.Path, 0o711), os.Chown(c.data(), int(c.account.Uid), int(c.account.Gid)))
}

func (c *Cluster) pickAccount() error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("root cannot run PostgreSQL, and there is no account postgres: %w", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	c.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir.Path, "data") }

// command returns a program of PostgreSQL that runs as its account and dies with this process.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir.Path
	cmd.ExtraFiles = []*os.File{c.dir.File()} // it uses the folder until it has ended, too
	cmd.SysProcAttr = attributes(c.account)
	return cmd
}

// serve starts the server and waits until it responds.
func (c *Cluster) serve(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(c.dir.Path, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.exited = make(chan struct{})
	c.server = c.command(context.WithoutCancel(ctx), "postgres", settings(c.data(), c.port, c.durable)...)
	c.server.Stdout, c.server.Stderr = log, log
	if err := startPinned(c.server, c.exited); err != nil {
		c.server = nil
		return fmt.Errorf("start postgres: %w", err)
	}
	if err := c.await(ctx); err != nil {
		c.Kill() // a server that is still recovering keeps the next one from starting
		return err
	}
	return nil
}

func settings(data string, port int, durable bool) []string {
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	set := map[string]string{
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "",
		"max_connections": "400", "shared_buffers": "128MB", "max_prepared_transactions": "10",
	}
	if durable {
		set["max_wal_size"] = "4GB"
	} else {
		set["fsync"], set["full_page_writes"], set["synchronous_commit"] = "off", "off", "off"
	}
	for name, value := range set {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// startLimit bounds how long a server may take to recover and respond.
const startLimit = 2 * time.Minute

// await waits until the server responds, dies or ctx ends.
func (c *Cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.exited:
			return fmt.Errorf("postgres did not start: %s", c.log())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not respond: %w: %s", err, c.log())
		case <-tick.C:
		}
	}
}

func (c *Cluster) log() string {
	b, _ := os.ReadFile(filepath.Join(c.dir.Path, "log"))
	return strings.TrimSpace(string(b))
}

// Stop ends the server at once and removes its folder. It may be called twice.
func (c *Cluster) Stop() error {
	if c.server != nil {
		_ = c.server.Process.Signal(syscall.SIGQUIT)
		select {
		case <-c.exited:
		case <-time.After(5 * time.Second):
			_ = c.server.Process.Kill()
			<-c.exited
		}
		c.server = nil
	}
	return c.remove()
}

func (c *Cluster) remove() error {
	if c.dir == nil {
		return nil
	}
	return c.dir.Remove()
}

// Binaries returns the folder of PostgreSQL's programs: the newest below
// /usr/lib/postgresql, else where the PATH has initdb.
func Binaries() (string, error) {
	if os.Getenv(Variable) == Without {
		return "", errWithout
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	best, newest := "", 0
	for _, path := range found {
		dir := filepath.Dir(path)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && v > newest {
			best, newest = dir, v
		}
	}
	if best != "" {
		return best, nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errMissing
	}
	return filepath.Dir(path), nil
}

var (
	errMissing = errors.New("PostgreSQL is not installed; run: sudo apt-get install -y --no-install-recommends postgresql")
	errWithout = errors.New(Variable + " is " + Without + ", so there is no PostgreSQL here; run: make test, or name this test in POSTGRES_TESTS of the Makefile")
)

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func address(port int, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: "127.0.0.1:" + strconv.Itoa(port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}
