package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// sector is what blocks of direct I/O are multiples of at least.
const sector = 512

// A checker checks what the keys of a file mean together. What was refused by itself is zero.
type checker struct {
	e *document.Examiner
	t *Test
	m object // what t was made of
}

// across reports what the keys of a file mean together and must not.
func across(e *document.Examiner, _ string, _ *document.Value, m map[string]any) {
	c := checker{e, testOf(m), m}
	c.target()
	c.sets()
	for i := range c.t.Mix {
		c.operation(fmt.Sprintf("mix[%d]", i), &c.t.Mix[i])
	}
	c.end()
	c.engine()
	c.start()
	c.shared()
	c.thresholds()
}

func (c *checker) given(path string) bool {
	_, ok := c.e.Keys[path]
	return ok
}

// refused reports whether the value at a path was refused by itself, or a part of it.
func (c *checker) refused(path string) bool {
	return slices.ContainsFunc(c.e.Problems, func(p document.Problem) bool { return strings.HasPrefix(p.Key, c.e.Prefix+path) })
}

func (c *checker) target() {
	if slices.Contains(strings.Split(c.t.Target, "/"), "..") {
		c.e.ReportAt("target", fmt.Sprintf("%q leads out of its folder", document.Shorten(c.t.Target)), "a target is beneath a root of the agent: leave out ..")
	}
}

func (c *checker) sets() {
	seen := map[string]bool{}
	for i := range c.t.Files {
		set, path := &c.t.Files[i], fmt.Sprintf("files[%d]", i)
		if set.Name != "" && seen[set.Name] {
			c.e.ReportAt(path+".name", fmt.Sprintf("another set is named %q", set.Name), "")
		}
		seen[set.Name] = true
		if set.Count > 0 && !c.given(path+".size") {
			c.e.ReportAt(path, `"size" is missing`, "a set with a count needs it")
		}
		if n := set.Tree.folders(); n > MaxFolders {
			c.e.ReportAt(path+".tree", fmt.Sprintf("width %d and depth %d make more than %d folders", set.Tree.Width, set.Tree.Depth, MaxFolders), "")
		}
		if mean := set.Size.Mean(); mean*float64(set.Count) > MaxTotal {
			c.e.ReportAt(path, fmt.Sprintf("%d files make more than %s", set.Count, SizeText(MaxTotal)), "")
		}
	}
}

// folders returns the number of folders of a tree, or one more than MaxFolders if it is greater.
func (t Tree) folders() int {
	n, level := 0, 1
	for range t.Depth {
		level *= t.Width
		if n += level; n > MaxFolders {
			return MaxFolders + 1
		}
	}
	return n
}

// Folders returns the number of folders beneath the set's own.
func (t Tree) Folders() int { return t.folders() }

// Mean returns the mean size in bytes, and of a lognormal one the mean before it is cut off.
func (s *Size) Mean() float64 {
	switch {
	case s.Uniform != nil:
		return (float64(s.Uniform.Min) + float64(s.Uniform.Max)) / 2
	case s.Lognormal != nil:
		return float64(min(max(s.Lognormal.Mean, s.Lognormal.Min), s.Lognormal.Max))
	case len(s.List) > 0:
		sum, weights := 0.0, 0.0
		for _, w := range s.List {
			sum += float64(w.Size) * float64(w.Weight)
			weights += float64(w.Weight)
		}
		return sum / weights
	}
	return float64(s.Fixed)
}

// Range returns the least and the greatest size.
func (s *Size) Range() (least, most int64) {
	switch {
	case s.Uniform != nil:
		return s.Uniform.Min, s.Uniform.Max
	case s.Lognormal != nil:
		return s.Lognormal.Min, s.Lognormal.Max
	case len(s.List) > 0:
		least, most = s.List[0].Size, s.List[0].Size
		for _, w := range s.List {
			least, most = min(least, w.Size), max(most, w.Size)
		}
		return least, most
	}
	return s.Fixed, s.Fixed
}

// ordered reports bounds that are not in order.
func ordered(e *document.Examiner, path string, _ *document.Value, m map[string]any) {
	least, ok := m["min"].(int64)
	most, also := m["max"].(int64)
	if !ok || !also {
		return
	}
	if least > most {
		e.ReportAt(path, fmt.Sprintf("min %s is more than max %s", SizeText(least), SizeText(most)), "")
		return
	}
	if mean, ok := m["mean"].(int64); ok && (mean < least || mean > most) {
		e.ReportAt(path+".mean", fmt.Sprintf("the mean %s is not from min %s to max %s", SizeText(mean), SizeText(least), SizeText(most)), "")
	}
}

func (c *checker) operation(path string, o *Operation) {
	if o.Kind == "" {
		return
	}
	if c.given(path+".block") && !o.Kind.HasData() {
		c.e.ReportKey(path+".block", fmt.Sprintf("a %s has no block", o.Kind), "leave it out")
	}
	if c.given(path+".access") && !o.Kind.ordered() {
		c.e.ReportKey(path+".access", fmt.Sprintf("a %s has no order of access", o.Kind), "leave it out")
	}
	c.block(path+".block", o)
	set := c.set(path, o)
	if set == nil {
		return
	}
	if o.Kind.needsFiles() && set.Count == 0 && !c.creates(set.Name) {
		c.e.ReportAt(path+".files", fmt.Sprintf("a %s needs files, and nothing creates any in the set %q", o.Kind, set.Name), "give the set a count, or the mix a create")
	}
	c.fits(path, o, set)
}

// needsFiles reports whether an operation of the kind is on a file that is there.
func (k Kind) needsFiles() bool { return k != Create && k != Mkdir && k != List }

func (c *checker) creates(set string) bool {
	return slices.ContainsFunc(c.t.Mix, func(o Operation) bool { return o.Kind == Create && o.Files == set })
}

// set returns the file set of an operation, or nil if there is none, which is reported.
func (c *checker) set(path string, o *Operation) *FileSet {
	var names []string
	for _, s := range c.t.Files {
		names = append(names, s.Name)
	}
	set := c.t.Set(o.Files)
	switch at := path + ".files"; {
	case !c.given(at) && len(names) == 0:
		if !c.given("files") {
			c.e.ReportAt(path, fmt.Sprintf("a %s needs a set of files", o.Kind), "add files: [{name: NAME, count: NUMBER, size: SIZE}]")
		}
	case !c.given(at) && len(names) > 1:
		c.e.ReportAt(path, `"files" is missing`, "it is one of "+strings.Join(names, ", "))
	case set == nil && o.Files != "":
		hint := c.e.Suggest(o.Files, names)
		if hint == "" && len(names) > 0 {
			hint = "known: " + strings.Join(names, ", ")
		}
		c.e.ReportAt(at, fmt.Sprintf("there is no set of files %q", o.Files), hint)
	}
	return set
}

// block checks the block of an operation by itself.
func (c *checker) block(path string, o *Operation) {
	if !o.Kind.HasData() {
		return
	}
	least, most := o.Block.Range()
	if o.Kind == Create {
		return
	}
	if c.given(path) && least < 1 {
		c.e.ReportAt(path, fmt.Sprintf("the block of a %s must have at least 1 byte", o.Kind), "")
	}
	if most > MaxBlock {
		c.e.ReportAt(path, fmt.Sprintf("%s is out of range: 1B to %s are allowed", SizeText(most), SizeText(MaxBlock)), "")
	}
	if !c.t.Direct {
		return
	}
	if o.Block.Uniform != nil || o.Block.Lognormal != nil {
		c.e.ReportAt(path, "direct needs blocks of one size, or of a list", fmt.Sprintf("write a multiple of %d bytes", sector))
		return
	}
	if size, odd := o.Block.unaligned(); odd {
		c.e.ReportAt(path, fmt.Sprintf("direct needs blocks in multiples of %d bytes, got %s", sector, SizeText(size)), "")
	}
}

// unaligned returns the first size that is not a multiple of a sector.
func (s *Size) unaligned() (int64, bool) {
	if s.Fixed%sector != 0 {
		return s.Fixed, true
	}
	for _, w := range s.List {
		if w.Size%sector != 0 {
			return w.Size, true
		}
	}
	return 0, false
}

// fits checks an operation against the files of its set.
func (c *checker) fits(path string, o *Operation, set *FileSet) {
	if set.Count == 0 || !set.sized() && set.Size.Fixed == 0 && !c.given(path+".block") && o.Kind != Read && o.Kind != Write {
		return
	}
	if at := fmt.Sprintf("files[%d].size", slices.IndexFunc(c.t.Files, func(f FileSet) bool { return f.Name == set.Name })); !c.given(at) || c.refused(at) {
		return // which says enough
	}
	_, block := o.Block.Range()
	_, size := set.Size.Range()
	switch at := path + ".block"; {
	case (o.Kind == Read || o.Kind == Write) && block > size && block <= MaxBlock:
		c.e.ReportAt(at, fmt.Sprintf("a block of %s does not fit the files of the set %q, which have at most %s", SizeText(block), set.Name, SizeText(size)), "")
	case o.Kind == Append && c.t.Direct:
		odd, is := set.Size.unaligned()
		which := SizeText(odd)
		if set.Size.Uniform != nil || set.Size.Lognormal != nil {
			which, is = set.Size.Text(), true
		}
		if is {
			c.e.ReportAt(path, fmt.Sprintf("direct needs files whose sizes are multiples of %d bytes to append to, and those of the set %q are not (%s)", sector, set.Name, which), "give the set such a size, or a list of them")
		}
	}
	if c.t.Verify && o.Kind == Read && set.Blocks != WriteBlocks && set.Blocks != "" {
		c.e.ReportAt("verify", fmt.Sprintf("the files of the set %q have no content that could be verified: they are %s", set.Name, set.Blocks), "give the set allocate: write")
	}
}

// end checks when the run ends.
func (c *checker) end() {
	if c.given("duration") && c.given("count") {
		c.e.ReportKey("count", "a run ends after a duration or after a count, not both", "keep one of them")
		return
	}
	if t := c.t; t.Interval > 0 && (t.Warmup+t.Duration)/t.Interval > MaxIntervals {
		c.e.ReportAt("interval", fmt.Sprintf("%s in %s makes more than %d intervals", t.Interval, t.Warmup+t.Duration, MaxIntervals), "make it longer")
	}
}

func (c *checker) engine() {
	if c.t.Depth > 1 && c.t.Engine != Uring && c.t.Engine != S3 && c.t.Engine != "" {
		c.e.ReportAt("depth", fmt.Sprintf("the engine %s has one operation in flight in each thread", c.t.Engine), "write engine: uring, or use jobs")
	}
	if c.t.Engine == S3 {
		c.objects()
	} else if c.given("s3") && c.t.Engine != "" {
		c.e.ReportKey("s3", fmt.Sprintf("the engine %s uses no object store", c.t.Engine), "write engine: s3")
	}
	if c.t.Verify && c.t.Engine == Null {
		c.e.ReportAt("verify", "the engine null reads nothing that could be verified", "")
	}
}

// objects checks what an object store does not have.
func (c *checker) objects() {
	t := c.t
	if n := t.Jobs * t.Depth; n > MaxInFlight {
		c.e.ReportAt("depth", fmt.Sprintf("%d jobs with %d requests in flight each are %d; at most %d are allowed", t.Jobs, t.Depth, n, MaxInFlight), "use fewer jobs, or less depth")
	}
	if n := t.Jobs * t.Depth; t.S3 != nil && n <= MaxInFlight && n*t.S3.PartsAtOnce > MaxInFlight {
		c.e.ReportAt("s3.parts_at_once", fmt.Sprintf("%d requests in flight with %d parts at once each are %d; at most %d are allowed", n, t.S3.PartsAtOnce, n*t.S3.PartsAtOnce, MaxInFlight), "use fewer jobs, or less depth")
	}
	if t.Direct {
		c.e.ReportAt("direct", "an object store has no direct I/O", "leave it out")
	}
	if t.Sync != SyncNone && t.Sync != "" {
		c.e.ReportAt("sync", "an object is durable when it is there, and an object store has no sync", "leave it out")
	}
	for i := range t.Files {
		if a := t.Files[i].Blocks; a != WriteBlocks && a != "" {
			c.e.ReportAt(fmt.Sprintf("files[%d].allocate", i), fmt.Sprintf("an object has content, and cannot be %s", a), "leave it out")
		}
	}
	for i := range t.Mix {
		at := fmt.Sprintf("mix[%d]", i)
		switch kind := t.Mix[i].Kind; kind {
		case Append, Mkdir, Rename, Fsync:
			c.e.ReportAt(at+".operation", fmt.Sprintf("the engine s3 has no %s", kind), "it has read, write, create, delete, stat and list")
		case Write:
			if c.given(at + ".block") {
				c.e.ReportKey(at+".block", "an object is written as a whole", "leave it out")
			}
		}
	}
}

func (c *checker) start() {
	s := c.t.Start
	switch given := c.given("start.quorum"); {
	case s.Policy == Quorum && !given:
		c.e.ReportAt("start", `"quorum" is missing`, "the policy quorum needs it")
	case s.Policy != Quorum && s.Policy != "" && given:
		c.e.ReportKey("start.quorum", fmt.Sprintf("the policy %s has no quorum", s.Policy), "write policy: quorum")
	}
}

// shared checks that no agent deletes its part of a shared set while others use it.
func (c *checker) shared() {
	t, clean := c.t, c.t.Cleanup
	if !t.Shared {
		return
	}
	if t.Count > 0 && clean.Completed == DeleteCreated {
		c.e.ReportAt("shared", "the agent that has done its count first would delete files that the others still use", "write a duration in place of the count, or cleanup: nothing")
	}
	if (t.Start.Policy == Quorum || t.Start.Policy == BestEffort) && (clean.Error == DeleteCreated || clean.Aborted == DeleteCreated) {
		c.e.ReportAt("shared", fmt.Sprintf("under the policy %s, an agent that fails would delete files that the others still use", t.Start.Policy), "write policy: all, or cleanup: nothing")
	}
}

func (c *checker) thresholds() {
	for i, one := range list(c.m, "thresholds") {
		kind := Kind(text(one, "operation"))
		if kind != "" && !slices.ContainsFunc(c.t.Mix, func(o Operation) bool { return o.Kind == kind || o.Kind == "" }) {
			c.e.ReportAt(fmt.Sprintf("thresholds[%d].operation", i), fmt.Sprintf("the mix has no %s", kind), "")
		}
	}
}
