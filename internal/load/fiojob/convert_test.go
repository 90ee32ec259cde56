package fiojob_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/load/fiojob"
)

// TestConvert: the common options of a job file have their places in a load file, and what is left
// out is named (L9).
func TestConvert(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, job, want string
		ignored         []string
	}{
		{"random reads", `
; comment
[global]
ioengine=libaio
direct=1
time_based
runtime=60
group_reporting
directory=/mnt

[rand read]
rw=randread
bs=4k
size=1g
numjobs=4
iodepth=32
`, `name: rand-read
files:
  - {name: data, count: 4, size: 1GiB}
mix:
  - {operation: read, weight: 1, block: 4KiB, access: random}
engine: "uring"
direct: true
sync: none
jobs: 4
depth: 32
duration: 1m0s
`, []string{"group_reporting", "directory"}},
		{"a mix by rate", `[mix]
rw=randrw
rwmixread=70
bs=4k,64k
filesize=4k-1m
nrfiles=100
time_based=1
runtime=5m
ramp_time=10s
rate_iops=500
rate_process=poisson
numjobs=2
random_distribution=zipf:1.2
fdatasync=1
buffer_compress_percentage=50
randseed=7
description=a "mix"
iodepth=8
`, `name: mix
description: "a \"mix\""
seed: 7
files:
  - {name: data, count: 200, size: {uniform: {min: 4KiB, max: 1MiB}}, compressible: 50}
mix:
  - {operation: read, weight: 70, block: 4KiB, access: {zipf: 1.2}}
  - {operation: write, weight: 30, block: 64KiB, access: {zipf: 1.2}}
engine: "threads"
direct: false
sync: fdatasync
jobs: 2
rate: {operations: 1000, arrival: poisson}
warmup: 10s
duration: 5m0s
`, []string{"iodepth"}},
		{"once over the file", `[global]
bs=1m
[w]
readwrite = write
size=256m
filename=a:b
numjobs=2
end_fsync=1
buffered=1
`, `name: w
files:
  - {name: data, count: 2, size: 128MiB}
mix:
  - {operation: write, weight: 1, block: 1MiB, access: sequential}
engine: "threads"
direct: false
sync: end
jobs: 2
count: 512
`, nil},
		{"blocks of several sizes", `[s]
rw=randwrite
bssplit=4k/70:64k/30
size=64m
time_based
runtime=1h
ioengine=null
`, `name: s
files:
  - {name: data, count: 1, size: 64MiB}
mix:
  - {operation: write, weight: 1, block: {list: [{size: 4KiB, weight: 70}, {size: 64KiB, weight: 30}]}, access: random}
engine: "null"
direct: false
sync: none
jobs: 1
duration: 1h0m0s
`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ignored, err := fiojob.Convert("x.fio", []byte(tt.job))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
			var names []string
			for _, i := range ignored {
				names = append(names, i.Option)
				if i.Why == "" {
					t.Error("no reason for", i.Option)
				}
			}
			if diff := cmp.Diff(tt.ignored, names); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRefused: what cannot be had in a load file is an error that names the option, its value and
// what is allowed; all at once (L9).
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, job, want string }{
		{"options", `[a]
rw=trim
bs=4ki
numjob=2
rate=10m
cpus_allowed=0-3
verify=crc32c
filename=/dev/sdb
random_distribution=pareto:0.2
sync=1
fsync=32
runtime=fast
direct=yes
invalidate=1
directory=${HOME}
`, `x.fio:2:1: rw: "trim" is not one of read, write, randread, randwrite, rw, readwrite, randrw
x.fio:3:1: bs: "4ki" is not a size: want a number, with k, m, g or t for units of 1024
x.fio:4:1: numjob: option "numjob" is not understood (did you mean "numjobs"?)
x.fio:5:1: rate: option "rate" is not understood (an option that is not understood may change what is measured: remove it if it does not)
x.fio:6:1: cpus_allowed: option "cpus_allowed" is not understood (an option that is not understood may change what is measured: remove it if it does not)
x.fio:7:1: verify: verification is different here: remove it, and set verify: true in the load file
x.fio:8:1: filename: "/dev/sdb" is a device, and loads are on files
x.fio:9:1: random_distribution: "pareto:0.2" is not one of random, zipf, zipf:THETA
x.fio:10:1: sync: "1" is not one of none, dsync
x.fio:11:1: fsync: "32": want 0 or 1, a sync after each write
x.fio:12:1: runtime: "fast" is not a time: want a number, with d, h, m, s, ms or us
x.fio:13:1: direct: "yes": want 0 or 1
x.fio:14:1: invalidate: the cache is not invalidated before a load: want 0, or direct=1
x.fio:15:1: "directory=${HOME}" needs another file or the environment (write out what it stands for)`},
		{"two jobs", "[a]\nsize=1m\n[b]\nsize=1m\n", `x.fio:3:1: b: the file has more than one job (a load file is one workload: import each job by itself)`},
		{"not text", "[\x88]\n", `x.fio: the file is not text in UTF-8`},
		{"no job", "[global]\nsize=1m\n", `x.fio:1:1: the file has no job (a job is a section: [NAME])`},
		{"no size", "[a]\nrw=read\ntime_based\n", "x.fio: [a]: size is missing (a job needs size or filesize)\nx.fio: [a]: time_based needs a runtime"},
		{"two ends", "[a]\nsize=1m\nruntime=5\n", "x.fio: [a]: runtime without time_based ends a job after its size or after its time, whichever is first (add time_based, or remove runtime)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := fiojob.Convert("x.fio", []byte(tt.job))
			var problems document.Problems
			if !errors.As(err, &problems) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzConvert: no panic, and what is converted is a load file that is accepted.
func FuzzConvert(f *testing.F) {
	f.Add([]byte("[a]\nrw=randrw\nbs=4k,8k\nsize=1g\nruntime=5\ntime_based\n"))
	f.Add([]byte("[global]\nbssplit=4k/50:8k/50\n[x y]\nsize=10m\nnumjobs=2\nfilesize=1-2\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, _, err := fiojob.Convert("x.fio", src); err == nil {
			return // Convert has parsed it
		}
	})
}
