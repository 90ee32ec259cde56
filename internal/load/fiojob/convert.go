package fiojob

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// An Ignored is an option that a load file has no place for, and why that changes nothing.
type Ignored struct {
	Line        int
	Option, Why string
}

// Convert returns the load file of a job file, and the options that it leaves out. The error is
// of type document.Problems: all faults, in the order of the file; name is in them.
func Convert(name string, src []byte) (yaml []byte, ignored []Ignored, err error) {
	e := document.NewExaminer(name)
	switch {
	case len(src) > document.MaxSource:
		e.Report(document.Place{}, "", fmt.Sprintf("the file has %d bytes or more; at most %d are allowed", len(src), document.MaxSource), "")
		return nil, nil, e.Problems
	case !utf8.Valid(src):
		e.Report(document.Place{}, "", "the file is not text in UTF-8", "")
		return nil, nil, e.Problems
	}
	c := converter{e: e, job: parse(e, string(src)), files: 1, jobs: 1, depth: 1, mixRead: 50, engine: "psync"}
	for _, o := range c.job.options {
		c.option(o)
	}
	c.check()
	if len(e.Problems) > 0 {
		e.Problems.Sort()
		return nil, nil, e.Problems
	}
	yaml = c.yaml()
	if _, err := spec.ParseFile(name, yaml); err != nil {
		return nil, nil, fmt.Errorf("the load file of %s would be:\n%s%w", name, yaml, err)
	}
	return yaml, c.ignored, nil
}

// A converter has the values of the options so far; a later one takes the place of an earlier one.
type converter struct {
	e       *document.Examiner
	job     job
	ignored []Ignored

	description, rw, engine, access, sync, arrival string
	blocks                                         [2]string // of reads and of writes, as a load file has them
	blockBytes                                     [2]int64  // 0: various
	size, ioSize, fileSize                         int64
	fileSizes                                      string // a distribution, in place of fileSize
	files, jobs, depth, mixRead, compressible      int
	rate                                           float64 // of each job
	seed                                           int64
	warmup, runtime                                time.Duration
	direct, timeBased, named                       bool
}

func (c *converter) report(o option, message, hint string) {
	c.e.Report(document.Place{Line: o.line, Column: 1}, o.key, message, hint)
}

// option takes an option.
func (c *converter) option(o option) {
	if why, harmless := harmless[o.key]; harmless {
		c.ignored = append(c.ignored, Ignored{o.line, o.key, why})
		return
	}
	take := takers[o.key]
	if take == nil {
		hint := "an option that is not understood may change what is measured: remove it if it does not"
		if near := document.Nearest(o.key, known()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		c.report(o, fmt.Sprintf("option %q is not understood", document.Shorten(o.key)), hint)
		return
	}
	if err := take(c, o.value); err != nil {
		c.report(o, err.Error(), "")
	}
}

func known() (names []string) {
	for name := range takers {
		names = append(names, name)
	}
	return names
}

// harmless are options that change nothing of what is measured, and why.
var harmless = map[string]string{
	"group_reporting": "results are always over all threads", "thread": "jobs are threads", "stonewall": "there is one job", "wait_for_previous": "there is one job", "new_group": "there is one job",
	"directory": "give it as --root of the agents", "fallocate": "prepared files are written", "create_serialize": "only preparation differs", "create_on_open": "only preparation differs",
	"create_fsync": "only preparation differs", "overwrite": "files are prepared in any case", "unlink": "cleanup says what is deleted",
	"refill_buffers": "content never deduplicates", "scramble_buffers": "content never deduplicates", "randrepeat": "the seed says so", "norandommap": "blocks are always drawn with repetition",
	"clat_percentiles": "results have all percentiles", "lat_percentiles": "results have all percentiles", "slat_percentiles": "results have all percentiles", "percentile_list": "results have all percentiles",
	"write_bw_log": "results have all intervals", "write_lat_log": "results have all intervals", "write_iops_log": "results have all intervals", "write_hist_log": "results have all intervals",
	"log_avg_msec": "results have all intervals", "log_hist_msec": "results have all intervals", "disk_util": "nothing is shown of it", "significant_figures": "results have all digits", "unit_base": "only output differs",
	"exitall": "there is one job", "eta": "only output differs",
}

// takers take the value of an option.
var takers = map[string]func(*converter, string) error{
	"description": func(c *converter, v string) error { c.description = v; return nil },
	"rw": func(c *converter, v string) error {
		return oneOf(&c.rw, v, "read", "write", "randread", "randwrite", "rw", "readwrite", "randrw")
	},
	"rwmixread": func(c *converter, v string) error { return whole(&c.mixRead, v, 0, 100) },
	"rwmixwrite": func(c *converter, v string) error {
		err := whole(&c.mixRead, v, 0, 100)
		c.mixRead = 100 - c.mixRead
		return err
	},
	"bs":       (*converter).takeBlocks,
	"bssplit":  (*converter).takeSplit,
	"size":     func(c *converter, v string) error { return bytes(&c.size, v) },
	"io_size":  func(c *converter, v string) error { return bytes(&c.ioSize, v) },
	"filesize": (*converter).takeFileSize,
	"nrfiles":  func(c *converter, v string) error { return whole(&c.files, v, 1, spec.MaxFiles) },
	"filename": func(c *converter, v string) error {
		c.files, c.named = len(strings.Split(v, ":")), true
		if strings.HasPrefix(v, "/dev/") {
			return fmt.Errorf("%q is a device, and loads are on files", v)
		}
		return nil
	},
	"numjobs": func(c *converter, v string) error { return whole(&c.jobs, v, 1, spec.MaxJobs) },
	"iodepth": func(c *converter, v string) error { return whole(&c.depth, v, 1, spec.MaxInFlight) },
	"ioengine": func(c *converter, v string) error {
		return oneOf(&c.engine, v, "psync", "sync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "null")
	},
	"direct": func(c *converter, v string) error { return truth(&c.direct, v) },
	"buffered": func(c *converter, v string) error {
		err := truth(&c.direct, v)
		c.direct = !c.direct
		return err
	},
	"runtime":    func(c *converter, v string) error { return duration(&c.runtime, v) },
	"time_based": func(c *converter, v string) error { return truth(&c.timeBased, v) },
	"ramp_time":  func(c *converter, v string) error { return duration(&c.warmup, v) },
	"rate_iops": func(c *converter, v string) error {
		n := 0
		err := whole(&n, v, 1, spec.MaxRate)
		c.rate = float64(n)
		return err
	},
	"rate_process": func(c *converter, v string) error { return oneOf(&c.arrival, v, "linear", "poisson") },
	"fsync":        func(c *converter, v string) error { return c.takeSync(v, spec.SyncEach) },
	"fdatasync":    func(c *converter, v string) error { return c.takeSync(v, spec.SyncData) },
	"end_fsync":    func(c *converter, v string) error { return c.takeSync(v, spec.SyncAtEnd) },
	"sync": func(c *converter, v string) error {
		switch v {
		case "0", "none":
			return nil
		case "dsync":
			c.sync = string(spec.SyncOpen)
			return nil
		}
		return fmt.Errorf("%q is not one of none, dsync", v)
	},
	"random_distribution":        (*converter).takeDistribution,
	"buffer_compress_percentage": func(c *converter, v string) error { return whole(&c.compressible, v, 0, 100) },
	"randseed":                   func(c *converter, v string) error { return bytes(&c.seed, v) },
	"invalidate": func(_ *converter, v string) error {
		if v != "0" {
			return fmt.Errorf("the cache is not invalidated before a load: want 0, or direct=1")
		}
		return nil
	},
	"verify": func(_ *converter, v string) error {
		if v != "0" {
			return fmt.Errorf("verification is different here: remove it, and set verify: true in the load file")
		}
		return nil
	},
}

func (c *converter) takeSync(v string, s spec.Sync) error {
	switch v {
	case "0":
		return nil
	case "1":
		c.sync = string(s)
		return nil
	}
	return fmt.Errorf("%q: want 0 or 1, a sync after each write", v)
}

// takeBlocks takes one size, or those of reads and of writes.
func (c *converter) takeBlocks(v string) error {
	parts := strings.Split(v, ",")
	if len(parts) > 2 {
		return fmt.Errorf("%q: want one size, or those of reads and writes", v)
	}
	for i := range c.blocks {
		n, err := size(parts[min(i, len(parts)-1)])
		if err != nil {
			return err
		}
		c.blocks[i], c.blockBytes[i] = spec.SizeText(n), n
	}
	return nil
}

// takeSplit takes sizes with percentages: 4k/70:64k/30.
func (c *converter) takeSplit(v string) error {
	var list []string
	for _, part := range strings.Split(v, ":") {
		text, percent, ok := strings.Cut(part, "/")
		n, err := size(text)
		if err != nil {
			return err
		}
		var weight int
		if !ok || whole(&weight, percent, 1, 100) != nil {
			return fmt.Errorf("%q: want SIZE/PERCENT, with colons between them", v)
		}
		list = append(list, fmt.Sprintf("{size: %s, weight: %d}", spec.SizeText(n), weight))
	}
	text := "{list: [" + strings.Join(list, ", ") + "]}"
	c.blocks, c.blockBytes = [2]string{text, text}, [2]int64{}
	return nil
}

// takeFileSize takes a size, or a range.
func (c *converter) takeFileSize(v string) error {
	low, high, ranged := strings.Cut(v, "-")
	if !ranged {
		c.fileSizes = ""
		return bytes(&c.fileSize, v)
	}
	least, err := size(low)
	if err != nil {
		return err
	}
	most, err := size(high)
	c.fileSizes = fmt.Sprintf("{uniform: {min: %s, max: %s}}", spec.SizeText(least), spec.SizeText(most))
	return err
}

func (c *converter) takeDistribution(v string) error {
	name, theta, given := strings.Cut(v, ":")
	switch {
	case v == "random":
		c.access = ""
		return nil
	case v == "zipf":
		c.access = v
		return nil
	case name == "zipf" && given:
		f, err := strconv.ParseFloat(theta, 64)
		if err != nil || !(f >= 0 && f <= spec.MaxTheta) {
			return fmt.Errorf("zipf %q: want 0 to %v", theta, spec.MaxTheta)
		}
		c.access = fmt.Sprintf("{zipf: %v}", f)
		return nil
	}
	return fmt.Errorf("%q is not one of random, zipf, zipf:THETA", v)
}

func oneOf(to *string, v string, words ...string) error {
	for _, w := range words {
		if v == w {
			*to = v
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", document.Shorten(v), strings.Join(words, ", "))
}

func whole(to *int, v string, least, most int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return fmt.Errorf("%q: want a whole number, %d to %d", document.Shorten(v), least, most)
	}
	*to = n
	return nil
}

func bytes(to *int64, v string) error {
	n, err := size(v)
	*to = n
	return err
}

func duration(to *time.Duration, v string) error {
	d, err := span(v)
	*to = d
	return err
}

func truth(to *bool, v string) error {
	if v != "0" && v != "1" {
		return fmt.Errorf("%q: want 0 or 1", document.Shorten(v))
	}
	*to = v == "1"
	return nil
}

// check reports what is missing, or means something else together.
func (c *converter) check() {
	if len(c.e.Problems) > 0 {
		return
	}
	end := func(message, hint string) { c.e.Report(document.Place{}, "["+c.job.name+"]", message, hint) }
	c.rw = cmp.Or(c.rw, "read")
	if c.blocks[0] == "" {
		_ = c.takeBlocks("4k") // which is a size
	}
	if c.size == 0 && c.fileSize == 0 && c.fileSizes == "" {
		end("size is missing", "a job needs size or filesize")
	}
	switch {
	case c.timeBased && c.runtime == 0:
		end("time_based needs a runtime", "")
	case !c.timeBased && c.runtime > 0:
		end("runtime without time_based ends a job after its size or after its time, whichever is first", "add time_based, or remove runtime")
	case !c.timeBased && (c.blockBytes[0] == 0 || c.blockBytes[0] != c.blockBytes[1] && strings.HasSuffix(c.rw, "rw")):
		end("blocks of several sizes have no known number in a size", "add runtime and time_based")
	case !c.timeBased && c.size == 0 && c.ioSize == 0:
		end("size is missing", "a job that is not time_based needs the amount that it reads or writes")
	}
	if c.depth > 1 && c.engineOf() == spec.Threads {
		c.ignored = append(c.ignored, Ignored{0, "iodepth", "the engine " + c.engine + " has one operation in flight"})
		c.depth = 1
	}
}

func (c *converter) engineOf() spec.Engine {
	switch c.engine {
	case "libaio", "posixaio", "io_uring":
		return spec.Uring
	case "null":
		return spec.Null
	}
	return spec.Threads
}

// yaml writes the load file. A job of fio has files of its own unless they are named; here all
// threads use one set.
func (c *converter) yaml() []byte {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s: %v\n", key, value) }
	line("name", nameOf(c.job.name))
	if c.description != "" {
		line("description", strconv.Quote(c.description))
	}
	if c.seed > 0 {
		line("seed", c.seed)
	}
	count, each := c.files, c.fileSizes
	if !c.named {
		count *= c.jobs
	}
	if each == "" {
		each = spec.SizeText(cmp.Or(c.fileSize, c.size/int64(c.files)))
	}
	fmt.Fprintf(&b, "files:\n  - {name: data, count: %d, size: %s%s}\n", count, each, c.content())
	b.WriteString("mix:\n")
	c.operation(&b, spec.Read, c.blocks[0], c.mixRead)
	c.operation(&b, spec.Write, c.blocks[1], 100-c.mixRead)
	line("engine", strconv.Quote(string(c.engineOf())))
	line("direct", c.direct)
	line("sync", cmp.Or(c.sync, string(spec.SyncNone)))
	line("jobs", c.jobs)
	if c.depth > 1 {
		line("depth", c.depth)
	}
	if c.rate > 0 {
		arrival := map[string]spec.Arrival{"": spec.Constant, "linear": spec.Constant, "poisson": spec.Poisson}[c.arrival]
		fmt.Fprintf(&b, "rate: {operations: %.0f, arrival: %s}\n", c.rate*float64(c.jobs), arrival)
	}
	if c.warmup > 0 {
		line("warmup", c.warmup)
	}
	if c.timeBased {
		line("duration", c.runtime)
	} else {
		line("count", max(cmp.Or(c.ioSize, c.size)/c.blockBytes[c.first()], 1)*int64(c.jobs))
	}
	return []byte(b.String())
}

// first returns which of the blocks the job has: 0 of reads, 1 of writes.
func (c *converter) first() int {
	if strings.HasSuffix(c.rw, "write") && c.rw != "readwrite" {
		return 1
	}
	return 0
}

func (c *converter) content() string {
	if c.compressible == 0 {
		return ""
	}
	return fmt.Sprintf(", compressible: %d", c.compressible)
}

// operation writes an operation of the mix, if the job has it.
func (c *converter) operation(b *strings.Builder, kind spec.Kind, block string, weight int) {
	mixed := c.rw == "rw" || c.rw == "readwrite" || c.rw == "randrw"
	if !mixed && strings.TrimPrefix(c.rw, "rand") != string(kind) || mixed && weight == 0 {
		return
	}
	access := string(spec.Sequential)
	if strings.HasPrefix(c.rw, "rand") {
		access = cmp.Or(c.access, string(spec.Random))
	}
	if !mixed {
		weight = 1
	}
	fmt.Fprintf(b, "  - {operation: %s, weight: %d, block: %s, access: %s}\n", kind, weight, block, access)
}

// nameOf returns a name that load files allow.
func nameOf(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
	name = strings.TrimLeft(name[:min(len(name), spec.MaxName)], "._-")
	if _, err := strconv.ParseFloat(name, 64); err == nil || name == "" || name == "null" || name == "true" || name == "false" {
		return "job-" + name
	}
	return name
}
