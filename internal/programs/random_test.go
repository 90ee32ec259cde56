package programs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
)

// (S14, S3) Whatever happens in whatever order, no decision is refused, nothing
// panics, there are never two of a program, and in the end what is wanted, and can
// run, runs.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			script := randomScript(rand.New(rand.NewPCG(seed, 14)))
			var trace string
			synctest.Test(t, func(t *testing.T) { trace = newScene(t).play(script) })
			for _, wrong := range []string{"REFUSED", "PANIC", "TWO COPIES", "left:"} {
				if strings.Contains(trace, wrong) {
					t.Errorf("%s in\n%s\n---\n%s", wrong, script, trace)
				}
			}
			for _, id := range []string{"a", "b", "c"} {
				if !strings.Contains(trace, id+": running (running), wanted running") {
					t.Errorf("%s does not run in the end:\n%s\n---\n%s", id, script, trace)
				}
			}
		})
	}
}

// randomScript makes a scenario, at whose end everything is wanted and well.
func randomScript(r *rand.Rand) string {
	var b strings.Builder
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	define := func() {
		fmt.Fprintf(&b, "service a ready alive timeout=5s grace=3s %s\n", pick("policy=always", "policy=on_failure", "policy=never"))
		fmt.Fprintf(&b, "service b %s %s\n", pick("needs=a:started", "needs=a:ready", "ready"), pick("", "env=other", "grace=2s"))
		fmt.Fprintf(&b, "service c %s %s\n", pick("needs=b:ready,a:ready", "needs=a:completed", "policy=on_failure"), pick("", "autostart=false"))
	}
	define()
	b.WriteString("apply\n")
	for range 40 {
		id := pick("a", "b", "c")
		switch r.IntN(12) {
		case 0, 1, 2:
			fmt.Fprintf(&b, "%s %s\n", pick("start", "stop", "restart"), id)
		case 3, 4:
			fmt.Fprintf(&b, "exit %s %s\n", id, pick("0", "1", "SIGKILL"))
		case 5:
			fmt.Fprintf(&b, "actor %s %s=%s\n", id, pick("ready", "alive"), pick("ok", "fail", "hang"))
		case 6:
			fmt.Fprintf(&b, "actor %s %s\n", id, pick("slow=2s", "slow=0s", "slow=35s", "lingers=1s", "fork", "fork=no", "missing", "missing=no", "deaf"))
		case 7:
			define()
			if r.IntN(3) == 0 {
				fmt.Fprintf(&b, "drop c\n")
			}
			b.WriteString("apply\n")
		case 8:
			if r.IntN(4) == 0 {
				b.WriteString("crash\n")
			}
		default:
			fmt.Fprintf(&b, "wait %s\n", pick("1ms", "20ms", "500ms", "1s", "3s", "10s", "40s"))
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		fmt.Fprintf(&b, "actor %s ready=ok alive=ok slow=0s fork=no missing=no\n", id)
	}
	b.WriteString("service a ready\nservice b needs=a:ready\nservice c needs=b:ready\napply\nwait 1m\napply\nwait 2m\n")
	for _, id := range []string{"a", "b", "c"} {
		fmt.Fprintf(&b, "restart %s\nwait 1m\n", id)
	}
	b.WriteString("show a\nshow b\nshow c\n")
	return b.String()
}
