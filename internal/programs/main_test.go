package programs

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// programs are what the test binary can run as.
func programs() map[string]func(args []string) {
	return map[string]func(args []string){
		"serve": func(args []string) { // HTTP on an address, until SIGTERM
			l, err := net.Listen("tcp", args[0])
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/redirect" {
					http.Redirect(w, q, "/missing", http.StatusFound)
				} else if q.URL.Path == "/missing" {
					http.NotFound(w, q)
				}
			}))
			fmt.Println("serving")
			await(syscall.SIGTERM)
		},
		"deaf": func([]string) { // ignores SIGTERM
			signal.Ignore(syscall.SIGTERM)
			fmt.Println("deaf")
			select {}
		},
		"daemon": func([]string) { // has a child in a session of its own
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "PROGRAMS_TEST=deaf")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			c.Stdout = os.Stdout
			if err := c.Start(); err != nil {
				os.Exit(1)
			}
			fmt.Println("daemon", c.Process.Pid)
			await(syscall.SIGTERM)
		},
		"exit": func(args []string) {
			var code int
			fmt.Sscan(args[0], &code)
			os.Exit(code)
		},
		"flood": func([]string) { // prints as much as it can
			line := strings.Repeat("x", 99) + "\n"
			for range 50_000 {
				os.Stdout.WriteString(line)
			}
			fmt.Println("the end")
			await(syscall.SIGTERM)
		},
		"notify": func(args []string) { // sends messages, then waits
			c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
			if err != nil {
				os.Exit(1)
			}
			for _, m := range args {
				c.Write([]byte(m))
			}
			await(syscall.SIGTERM)
		},
		"environment": func([]string) {
			fmt.Println(strings.Join(os.Environ(), "\n"))
			await(syscall.SIGTERM)
		},
		"slow": func([]string) { // a probe that hangs, with a child that does too
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "PROGRAMS_TEST=deaf")
			c.Stdout = os.Stdout
			_ = c.Start()
			select {}
		},
		"wait":    func([]string) { await(syscall.SIGTERM) },
		"manager": manageForever,
	}
}

func await(s os.Signal) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, s)
	fmt.Println("waiting")
	<-got
}

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv("PROGRAMS_TEST"); ok {
		words := strings.Fields(name)
		programs()[words[0]](words[1:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
