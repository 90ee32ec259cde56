package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestAKilledProcessFreesItsNames: at once, whatever its timeouts were (T10).
func TestAKilledProcessFreesItsNames(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("PAWL_HOLD_UNTIL_KILLED"); url != "" {
		holdForever(url)
	}
	url := pgtest.URL(t)
	db := open(t, url)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestAKilledProcessFreesItsNames$")
	cmd.Env = append(os.Environ(), "PAWL_HOLD_UNTIL_KILLED="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	var held *store.HeldError
	if _, err := db.Hold(t.Context(), "it", nil); !errors.As(err, &held) || string(held.Note) != `{"who":"child"}` {
		t.Fatalf("hold while the other lives: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	killed := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := db.Hold(t.Context(), "it", nil)
		if err == nil {
			return
		}
		if time.Since(killed) > 2*time.Second {
			t.Fatalf("still held 2 s after the kill: %v", err)
		}
		<-tick.C
	}
}

func holdForever(url string) {
	db, err := Open(context.Background(), Config{URL: url})
	if err == nil {
		_, err = db.Hold(context.Background(), "it", []byte(`{"who":"child"}`))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	select {}
}
