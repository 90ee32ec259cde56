package pgtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// noCluster keeps Debian's packages from creating a cluster for the system.
const noCluster = "create_main_cluster = false\n"

// Install installs PostgreSQL with apt-get unless it is installed, and reports on w. Only root
// can install; for others the error has the command to run.
func Install(w io.Writer) error {
	if _, err := Binaries(); err == nil {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Getuid() != 0 {
		return errMissing
	}
	fmt.Fprintln(w, "installing PostgreSQL with apt-get, once")
	if err := forbidCluster("/etc/postgresql-common/createcluster.conf"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"update", "-q"},
		{"install", "-q", "-y", "--no-install-recommends", "postgresql"},
	} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	_, err = Binaries()
	return err
}

// forbidCluster writes the file that the packages read, unless there is one.
func forbidCluster(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(noCluster)
	return err
}
