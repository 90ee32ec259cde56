//go:build linux

package workload

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// TestContents: prepared files have the sizes and the folders that the config says; no two sectors of two agents are
// alike, and what is to compress away does (L3, L9).
func TestContents(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for agent := range 2 {
		job := newJob(t, "{name: contents, files: [{name: data, count: 9, size: {uniform: {min: 0B, max: 2200000B}}, tree: {width: 2, depth: 2}, compressible: 50}], mix: [{operation: read, block: 1B}]}")
		job.AgentCount, job.AgentIndex = 2, agent
		done := start(t, job).prepare()
		sum := uint64(0)
		for file := range 9 {
			leaf := file % 4
			name := filepath.Join(job.Root, "load/01RUN", fmt.Sprintf("agent-%d/data/%d/%d/f%d", agent, leaf/2, leaf%2, file))
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sum += uint64(len(text))
			for at := 0; at+sector <= len(text); at += sector {
				if other := seen[string(text[at:at+sector])]; other != "" {
					t.Fatalf("a sector of %s is in %s, too", name, other)
				}
				seen[string(text[at:at+sector])] = name
			}
			var packed bytes.Buffer
			w, _ := flate.NewWriter(&packed, flate.BestSpeed) // the level is a valid one
			if _, err := w.Write(text); err != nil || w.Close() != nil {
				t.Fatal(err)
			}
			if share := float64(packed.Len()) / float64(len(text)); len(text) > 1<<16 && (share < .45 || share > .6) {
				t.Errorf("%s is compressed to %.2f: want a half", name, share)
			}
		}
		if done.GetBytes() != sum || done.GetFiles() != 9 || done.GetFolders() != 9 {
			t.Errorf("%d bytes are there: %v", sum, done)
		}
		for _, o := range done.GetOperations() { // by the size of the write
			if mean := o.GetBytes() / o.GetOperations(); sizeClasses[classOfSize(int64(mean))] != o.GetSizeClass() {
				t.Errorf("writes of %d bytes are in the class %s", mean, o.GetSizeClass())
			}
			sum -= o.GetBytes()
		}
		if sum != 0 || len(done.GetOperations()) < 2 {
			t.Errorf("%d bytes are in no class of %v", sum, done.GetOperations())
		}
	}
}

// TestAllocations: files of the other allocations have their sizes, with blocks and without.
func TestAllocations(t *testing.T) {
	t.Parallel()
	for allocation, blocks := range map[string]int64{"fallocate": 1 << 20 / 512, "sparse": 0} {
		job := newJob(t, "{name: allocations, files: [{name: data, count: 2, size: 1MiB, allocate: "+allocation+"}], mix: [{operation: read}]}")
		start(t, job).prepare()
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(job.Root, "load/01RUN/agent-0/data/f1"), &st); err != nil {
			t.Fatal(err)
		}
		if st.Size != 1<<20 || st.Blocks < blocks || allocation == "sparse" && st.Blocks > 0 {
			t.Errorf("%s: %d bytes in %d blocks", allocation, st.Size, st.Blocks)
		}
	}
}

// TestSequential: the threads of all agents go through all blocks of all files, each once, and begin again (L9).
func TestSequential(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ files, jobs, agents int }{{1, 1, 1}, {5, 2, 1}, {2, 3, 1}, {1, 4, 1}, {3, 2, 2}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			job := newJob(t, fmt.Sprintf("{name: sequential, shared: true, files: [{name: data, count: %d, size: 64KiB}], mix: [{operation: read, access: sequential}], jobs: %d}", c.files, c.jobs))
			job.AgentCount = c.agents
			visits := map[string]int{}
			manifest := job.Manifest
			for agent := range c.agents { // the first one finds the files of the others missing otherwise
				job.AgentIndex, job.Manifest = agent, fmt.Sprint(manifest, agent)
				prepareHere(t, job)
			}
			for agent := range c.agents {
				job.AgentIndex, job.Manifest = agent, fmt.Sprint(manifest, agent, "again")
				for _, th := range runHere(t, job).threads {
					o := th.operations[0]
					_, stride := th.run.place(0)
					for range c.files * 16 / int(stride) { // one round, if it is even
						file, spot := th.pick(o)
						offset, n := th.place(o, spot, o.set.size(file))
						visits[fmt.Sprint(file, offset, n)]++
					}
				}
			}
			even := c.files*16%(c.jobs*c.agents) == 0 && (c.files%(c.jobs*c.agents) == 0 || c.jobs*c.agents%c.files == 0)
			for where, n := range visits {
				if even && n != 1 || !strings.HasSuffix(where, " 4096") {
					t.Errorf("%s: %d times", where, n)
				}
			}
			if even && len(visits) != c.files*16 {
				t.Errorf("%d blocks of %d", len(visits), c.files*16)
			}
		})
	}
}

// TestSyncs: each policy works with each kind that writes.
func TestSyncs(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{"fsync", "fdatasync", "dsync", "end"} {
		job := newJob(t, "{name: syncs, files: [{name: data, count: 2, size: 64KiB}], mix: [{operation: write}, {operation: append}, {operation: create}], count: 60, sync: "+sync+"}")
		if _, f := perform(t, job); f.GetError() != nil {
			t.Error(sync, f.GetError())
		}
	}
}

// TestCountAfterWarmup: a count begins when the warm-up is over.
func TestCountAfterWarmup(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: warm, files: [{name: data, count: 2, size: 64KiB}], mix: [{operation: read}], jobs: 3, warmup: 150ms, interval: 100ms, count: 1000}")
	intervals, f := perform(t, job)
	if n, _, _ := total(t, f, "read"); n < 1000 || n > 1003 { // the last operations of the warm-up may end after it
		t.Errorf("%d operations: want 1000", n)
	}
	if !intervals[0].GetWarmup() || intervals[len(intervals)-1].GetWarmup() {
		t.Error("the warm-up is not marked")
	}
}

// TestSecondEngine: a second engine with the manifest of another one is refused; the things of the first would be
// forgotten.
func TestSecondEngine(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: second, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}]}")
	p := start(t, job)
	p.prepare()
	if e := start(t, job).refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED || !strings.Contains(e.GetMessage(), "file exists") {
		t.Error(e)
	}
	left(t, job, p.clean())
}

// TestTooMuch: sets that make more bytes together than a number holds exceed every limit (L10).
func TestTooMuch(t *testing.T) {
	t.Parallel()
	config := "{name: much, mix: [{operation: read, files: s0}], files: ["
	for i := range 16 {
		config += fmt.Sprintf("{name: s%d, count: %d, size: 1TiB, allocate: sparse}, ", i, 1<<20)
	}
	job := newJob(t, config+"]}")
	job.LimitBytes = 1 << 62
	if _, faults := Plan(t.Context(), job); len(faults) != 1 || faults[0].GetSubject() != "files" || !strings.Contains(faults[0].GetMessage(), "18446744073709551615 bytes") {
		t.Error(faults)
	}
}

// TestMemory: buffers that do not fit into the memory are refused before anything is created, those of a ring included.
func TestMemory(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: memory, engine: uring, depth: 4096, files: [{name: data, count: 1, size: 1GiB}], mix: [{operation: read, block: 1GiB}]}")
	if _, faults := Plan(t.Context(), job); len(faults) == 0 || faults[0].GetSubject() != "jobs" {
		t.Error(faults)
	}
	if e := start(t, job).refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID || e.GetSubject() != "jobs" || len(tree(t, job.Root)) > 0 {
		t.Error(e)
	}
}

// TestPlanEnds: a plan of files whose sizes take minutes to draw ends with its caller.
func TestPlanEnds(t *testing.T) {
	t.Parallel()
	job := newJob(t, fmt.Sprintf("{name: many, files: [{name: data, count: %d, size: {lognormal: {mean: 4KiB, deviation: 4KiB, min: 0B, max: 1MiB}}}], mix: [{operation: read, block: 1B}]}", 1<<30))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, faults := Plan(ctx, job); len(faults) != 1 || !strings.Contains(faults[0].GetMessage(), "deadline exceeded") || time.Since(began) > 20*time.Second {
		t.Error(faults, time.Since(began))
	}
}
