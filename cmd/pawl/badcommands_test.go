package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/console"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// makeDatabase makes the database that an environment names.
func makeDatabase(t *testing.T, env map[string]string) {
	t.Helper()
	if code, _, stderr := here(env, "migrate", "up"); code != 0 {
		t.Fatal(stderr)
	}
}

// golden compares a text with a file under testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestBadCommands runs command lines that are wrong: each is told what, exactly
// as its golden file has it, and nothing is stored.
func TestBadCommands(t *testing.T) {
	t.Parallel()
	const (
		good     = "testdata/badcommands/good.yaml"
		bad      = "testdata/badcommands/bad.yaml"
		services = "testdata/badcommands/services.yaml"
		load     = "../../examples/load/random-read.yaml"
		id       = "j_019a3c7e5b7a7c1d8000000040a1b2c3"
	)
	for name, args := range map[string][]string{
		"unknown-command":         {"rnu"},
		"unknown-command-far":     {"frobnicate"},
		"unknown-subcommand":      {"job", "shwo", "x"},
		"unknown-help":            {"help", "jbos"},
		"unknown-flag":            {"run", "--inptu", "x"},
		"unknown-flag-global":     {"--databse", "x", "jobs"},
		"unknown-shorthand":       {"run", "-z", good},
		"flag-without-value":      {"jobs", "--limit"},
		"flag-not-a-number":       {"run", good, "--workers", "many"},
		"flag-not-a-duration":     {"exec", "--timeout", "5", "--", "true"},
		"bench-only-nothing":      {"bench", "--only", "chians"},
		"bench-finished":          {"bench", "--finished", "-1"},
		"bench-rounds":            {"bench", "--waiting", "1", "--rounds", "0"},
		"bench-rounds-alone":      {"bench", "--rounds", "3"},
		"bench-waiting":           {"bench", "--waiting", "10000001"},
		"bench-workers":           {"bench", "--only", "drain", "--workers", "2,0"},
		"bench-workers-what":      {"bench", "--only", "no-op", "--workers", "2"},
		"bench-workers-filled":    {"bench", "--only", "drain", "--workers", "2", "--finished", "10"},
		"bench-processes":         {"bench", "--only", "drain", "--processes"},
		"bench-rate":              {"bench", "--rate", "0"},
		"bench-store-unknown":     {"bench", "--stores", "full,mysql"},
		"load-run-agents-local":   {"load", "run", load, "--agents", "a", "--local", "2"},
		"load-run-agents-twice":   {"load", "run", load, "--agents", "::1,[::1]:7296", "--out", "testdata/out"},
		"load-run-agents-far":     {"load", "run", load, "--agents", "10.0.0.1", "--out", "testdata/out"},
		"load-run-agents-empty":   {"load", "run", load, "--agents", "", "--out", "testdata/out"},
		"load-run-ca":             {"load", "run", load, "--agents", "unix:a", "--ca", load, "--out", "testdata/out"},
		"load-plan-agents-empty":  {"load", "plan", load, "--agents", ""},
		"load-run-agents-none":    {"load", "run", load, "--agents", "http://a", "--out", "testdata/out"},
		"load-run-duration":       {"load", "run", load, "--duration", "0s"},
		"load-run-file":           {"load", "run", bad},
		"load-run-id":             {"load", "run", load, "--run-id", "mine"},
		"load-run-key":            {"load", "run", load, "--agents", "a", "--client-cert", "a.pem", "--out", "testdata/out"},
		"load-run-local":          {"load", "run", load, "--local", "0"},
		"load-run-out":            {"load", "run", load, "--out", "testdata"},
		"load-run-quorum":         {"load", "run", "testdata/badcommands/quorum.yaml", "--agents", "::1", "--out", "testdata/out"},
		"load-run-rate":           {"load", "run", load, "--rate", "-1"},
		"load-run-root":           {"load", "run", load, "--root", "testdata/none", "--out", "testdata/out"},
		"load-run-s3-agents":      {"load", "run", load, "--agents", "a", "--s3", "https://host/bucket"},
		"load-run-s3-limit":       {"load", "run", load, "--s3", "https://host/bucket?bytes=0&objects=5", "--out", "testdata/out"},
		"load-run-s3-password":    {"load", "run", load, "--s3", "https://user:password@host/bucket", "--out", "testdata/out"},
		"load-run-s3-secret":      {"load", "run", load, "--s3", "https://AKIAEXAMPLE:wJalr/K7MD@host/bucket", "--out", "testdata/out"},
		"load-run-s3-style":       {"load", "run", load, "--s3", "https://host/bucket?path_style=no", "--out", "testdata/out"},
		"load-run-s3-url":         {"load", "run", load, "--s3", "s3://bucket/prefix", "--out", "testdata/out"},
		"load-run-server":         {"load", "run", load, "--server", "http://127.0.0.1:1"},
		"run-without-file":        {"run"},
		"run-two-files":           {"run", good, "other.yaml"},
		"run-resume-with-space":   {"run", good, "--resume", id},
		"run-resume-empty":        {"run", good, "--resume="},
		"run-input-not-text":      {"run", good, "-i", "day=\xff"},
		"exec-not-text":           {"exec", "--", "echo", "\xff"},
		"workspace-not-text":      {"jobs", "--workspace", "\x1b[31m"},
		"run-missing-file":        {"run", "testdata/badcommands/none.yaml"},
		"run-folder":              {"run", "testdata"},
		"run-bad-file":            {"run", bad},
		"run-handler":             {"run", "testdata/badcommands/handler.yaml"},
		"run-bad-output":          {"run", good, "-o", "jsno"},
		"run-workers-zero":        {"run", good, "--workers", "0"},
		"run-resume-request-id":   {"run", good, "--resume", "--request-id", "x"},
		"run-resume-no-such-job":  {"run", good, "--resume=" + id},
		"run-resume-nothing":      {"run", good, "--resume", "-i", "day=2026-01-31"},
		"input-not-a-pair":        {"run", good, "-i", "day"},
		"input-unknown":           {"run", good, "-i", "dya=2026-01-31"},
		"input-missing":           {"run", good},
		"input-wrong-type":        {"run", good, "-i", "day=2026-01-31", "-i", "count=many"},
		"input-wrong-pattern":     {"run", good, "-i", "day=today"},
		"inputs-not-json":         {"submit", good, "--inputs", "{day"},
		"inputs-no-file":          {"submit", good, "--inputs", "@testdata/badcommands/none.json"},
		"validate-nothing":        {"validate"},
		"validate-bad-file":       {"validate", good, bad},
		"plan-bad-output":         {"plan", good, "-o", "svg"},
		"jobs-bad-status":         {"jobs", "--status", "failed,runing"},
		"jobs-bad-limit":          {"jobs", "--limit", "0"},
		"jobs-argument":           {"jobs", "all"},
		"job-show-nothing":        {"job", "show"},
		"job-show-bad-id":         {"job", "show", "nightly"},
		"job-show-short-id":       {"job", "show", "3f9"},
		"job-show-unknown":        {"job", "show", id},
		"job-show-unknown-short":  {"job", "show", "40a1b2c3"},
		"job-cancel-unknown":      {"job", "cancel", id},
		"job-logs-unknown":        {"job", "logs", id, "load"},
		"job-pause-nothing":       {"job", "pause"},
		"job-pause-status":        {"job", "pause", "--status", "pending", id},
		"job-pause-all-and-job":   {"job", "pause", "--all", id},
		"job-pause-dash-and-job":  {"job", "pause", "-", id},
		"job-pause-unknown":       {"job", "pause", id},
		"job-resume-bad-status":   {"job", "resume", "--all", "--status", "paused"},
		"job-retry-unknown":       {"job", "retry", id},
		"job-retry-two-wait":      {"job", "retry", id, id, "--wait"},
		"job-retry-bad-output":    {"job", "retry", id, "-o", "yaml"},
		"job-cancel-two-unknown":  {"job", "cancel", id, "j_019a3c7e5b7a7c1d8000000040a1b2c4"},
		"job-signal-no-name":      {"job", "signal", id},
		"job-signal-bad-data":     {"job", "signal", id, "paid", "--data", "{sum"},
		"job-signal-no-data":      {"job", "signal", id, "paid", "--data", ""},
		"job-signal-no-file":      {"job", "signal", id, "paid", "--data", "@testdata/badcommands/none.json"},
		"job-signal-bad-name":     {"job", "signal", id, "Paid"},
		"step-unknown-verb":       {"step", "retyr", id, "load"},
		"step-retry-no-step":      {"step", "retry", id},
		"step-skip-unknown":       {"step", "skip", id, "load"},
		"step-resolve-bad-data":   {"step", "resolve", id, "load", "--data", "yes"},
		"approve-nothing":         {"approve"},
		"approve-unknown":         {"approve", id},
		"approve-too-much":        {"approve", id, "gate", "now"},
		"reject-set":              {"reject", id, "--set", "note=x"},
		"quota-bad-name":          {"quota", "set", "depht/0", "3"},
		"quota-bad-depth":         {"quota", "set", "depth/6", "3"},
		"quota-bad-slots":         {"quota", "set", "queue/billing", "-1"},
		"quota-slots-not-number":  {"quota", "set", "queue/billing", "many"},
		"quota-too-many":          {"quota", "set", "queue/billing", "1000001"},
		"quota-clear-unset":       {"quota", "clear", "queue/billing"},
		"quota-preset-unknown":    {"quota", "preset", "flat"},
		"quota-list-output":       {"quota", "list", "-o", "xml"},
		"exec-nothing":            {"exec"},
		"exec-bad-env":            {"exec", "--env", "LANG", "--", "true"},
		"exec-bad-retry":          {"exec", "--retry", "-1", "--", "true"},
		"exec-bad-dir":            {"exec", "--dir", "/no/such/folder", "--", "true"},
		"dev-bad-capacity":        {"dev", "--capacity", "0"},
		"server-bad-silence":      {"server", "--silence", "1s"},
		"server-capacity":         {"server", "--capacity", "5"},
		"server-listen-everyone":  {"server", "--listen", ":9464"},
		"server-listen-no-port":   {"server", "--listen", "127.0.0.1"},
		"supervise-nothing":       {"supervise"},
		"supervise-missing":       {"supervise", "testdata/badcommands/none.yaml"},
		"supervise-bad-file":      {"supervise", "testdata/badcommands/services-bad.yaml"},
		"supervise-bad-name":      {"supervise", services, "--name", "a/b"},
		"supervise-no-state":      {"supervise", services},
		"validate-services":       {"validate", services, "testdata/badcommands/services-bad.yaml"},
		"service-unknown-verb":    {"service", "restrat", "web"},
		"service-list-output":     {"service", "list", "-o", "xml"},
		"service-list-nobody":     {"service", "list", "--host", "shop"},
		"service-show-nobody":     {"service", "show", "web"},
		"service-stop-nothing":    {"service", "stop"},
		"service-stop-timeout":    {"service", "stop", "web", "--timeout", "-1s"},
		"service-logs-tail":       {"service", "logs", "web", "--tail", "-2"},
		"service-reload-nobody":   {"service", "reload", "shop"},
		"supervise-listen":        {"supervise", "--listen", "0.0.0.0:80", "nothing.yaml"},
		"dev-listen-name":         {"dev", "--listen", "pawl.example:9464"},
		"worker-unknown-verb":     {"worker", "puase", "rack1"},
		"worker-bad-capacity":     {"worker", "--capacity", "1001"},
		"worker-bad-queue":        {"worker", "--queue", "Billing"},
		"worker-bad-beat":         {"worker", "--beat", "10ms"},
		"worker-bad-isolation":    {"worker", "--on-isolation", "kill"},
		"worker-isolation-short":  {"worker", "--on-isolation", "stop", "--silence", "5s"},
		"dev-isolation-short":     {"dev", "--on-isolation", "stop", "--silence", "2s"},
		"worker-beat-of-silence":  {"worker", "--beat", "3s", "--silence", "6s"},
		"worker-bad-drain":        {"worker", "--drain-timeout", "-1s"},
		"worker-bad-floor":        {"worker", "--floor", "100"},
		"worker-floor-not-number": {"worker", "--floor", "low"},
		"worker-list-output":      {"worker", "list", "-o", "xml"},
		"worker-show-unknown":     {"worker", "show", "rack1"},
		"worker-pause-nothing":    {"worker", "pause"},
		"worker-pause-all-and-id": {"worker", "pause", "--all", "rack1"},
		"worker-no-reason":        {"worker", "terminate", "rack1"},
		"dev-bad-retention":       {"dev", "--retention", "10m"},
		"prune-no-age":            {"prune"},
		"prune-bad-age":           {"prune", "--older-than", "a month"},
		"prune-short-age":         {"prune", "--older-than", "0.01d"},
		"machine-unknown":         {"machine", "show", "jbo"},
		"machine-bad-output":      {"machine", "show", "job", "-o", "png"},
		"audit-file-and-job":      {"audit", "verify", id, "--file", "x"},
		"audit-file-missing":      {"audit", "verify", "--file", "testdata/badcommands/none.jsonl"},
		"audit-unknown-job":       {"audit", "export", id},
		"migrate-too-far":         {"migrate", "up", "--to", "99"},
		"migrate-wrong-direction": {"migrate", "down", "--to", "1"},
		"database-scheme":         {"--database", "mysql://root@host/db", "jobs"},
		"database-password":       {"--database", "postgres://u:secr@t@127.0.0.1/db", "jobs"},
		"database-password-slash": {"--database", "postgres://u:secr/t@127.0.0.1/db", "jobs"},
		"database-folder":         {"--database", "/no/such/folder/pawl.db", "jobs"},
		"database-parameter":      {"--database", "sqlite:///tmp/pawl.db?sync=off", "jobs"},
		"database-synchronous":    {"--database", "sqlite:///tmp/pawl.db?synchronous=off", "jobs"},
		"database-nowhere":        {"--database", "", "jobs"},
		"log-level":               {"--log-level", "loud", "jobs"},
		"log-format":              {"--log-format", "xml", "jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"PAWL_DATABASE": filepath.Join(t.TempDir(), "pawl.db"), "PAWL_RUNTIME_DIR": "/no/such/run"}
			switch {
			case name == "database-nowhere":
				delete(env, "PAWL_DATABASE")
			case args[0] != "migrate":
				makeDatabase(t, env)
			}
			code, _, stderr := here(env, args...)
			if code == 0 {
				t.Error("exit code 0")
			}
			if lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n"); !strings.HasPrefix(lines[0], "error: ") {
				t.Errorf("the first line is no error: %s", lines[0])
			}
			golden(t, "badcommands/"+name+".golden", fmt.Sprintf("$ pawl %s\n%sexit %d\n", console.Printable(strings.ToValidUTF8(strings.Join(args, " "), "\uFFFD")), stderr, code))
		})
	}
}
