package sdk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// nodePackage is the package of npm that is Node.js.
const nodePackage = "node@22"

// A Language is one that has an SDK.
type Language struct {
	Name string
	Ext  string // of its files
	find func() (string, error)
	env  string // how the interpreter finds the SDK, with %s for the root of the module
}

// The languages.
var (
	Python = &Language{Name: "python", Ext: ".py", find: sync.OnceValues(findPython), env: "PYTHONPATH=%s/sdk/python"}
	Node   = &Language{Name: "node", Ext: ".mjs", find: sync.OnceValues(findNode), env: "NODE_PATH=%s/sdk/js"}
)

// Interpreter returns the path of the program that runs the language, which is installed first
// if there is none.
func (l *Language) Interpreter() (string, error) { return l.find() }

// Worker returns the command of the worker of the tests, and the variables of its environment.
func (l *Language) Worker(args ...string) (argv, env []string, err error) {
	program, err := l.find()
	if err != nil {
		return nil, nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(root, "internal", "lab", "sdk", "testdata", "worker"+l.Ext)
	return append([]string{program, file}, args...), []string{fmt.Sprintf(l.env, root), "PYTHONDONTWRITEBYTECODE=1"}, nil
}

// Root returns the folder of the module that the current folder is in.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// findPython returns the interpreter itself: what is called python3 may be a script that
// looks for it.
func findPython() (string, error) {
	if _, err := exec.LookPath("python3"); err != nil {
		if err := install("python3"); err != nil {
			return "", err
		}
	}
	return printed("python3", "-c", "import sys; assert sys.version_info >= (3, 9), 'Python %s: want 3.9 or newer' % sys.version; print(sys.executable)")
}

// enough is what the expression prints with a Node.js that the SDK runs on.
const enough = "const [a, b] = process.versions.node.split('.').map(Number); console.log(a > 20 || a === 20 && b >= 19 ? process.execPath : '')"

func findNode() (string, error) {
	if path, err := printed("node", "-e", enough); err == nil && path != "" {
		return path, nil
	}
	if _, err := exec.LookPath("npx"); err != nil {
		if err := install("npm"); err != nil {
			return "", err
		}
	}
	return printed("npx", "--yes", "--package", nodePackage, "-c", "node -p process.execPath")
}

// printed returns the last line that a command prints.
func printed(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return "", fmt.Errorf("%s: %w\n%s", name, err, ended.Stderr)
	}
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndex(text, "\n")+1:], err
}

// install installs packages of Debian. Only root can; for others the error has the command.
func install(packages ...string) error {
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s is missing; run: sudo apt-get install -y --no-install-recommends %[1]s\n%w\n%s", strings.Join(packages, " "), err, out)
		}
	}
	return nil
}
