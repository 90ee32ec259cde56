//go:build linux

package workload

import (
	"context"
	"fmt"
	"math/bits"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// A layout says which files a job has, and what is in them.
type layout struct {
	job    Job
	test   *spec.Test
	target string // the folder of the test, relative to the root
	run    string // the folder of the run, in target
	prefix string // from the run's folder to that of this agent: "" or "agent-0/"
	sets   []*set
	store  *s3.Store // nil: files
	base   string    // of the keys of the run, in the bucket
}

func newLayout(job Job) (*layout, error) {
	test, err := spec.Parse([]byte(job.Config))
	if err != nil {
		return nil, invalid("", "", "%w", err)
	}
	if job.RunID == "" || path.Base(job.RunID) != job.RunID || job.RunID[0] == '.' {
		return nil, invalid("run_id", "", "the run id %q is not usable as the name of a folder", job.RunID)
	}
	if job.AgentIndex < 0 || job.AgentIndex >= job.AgentCount {
		return nil, invalid("assignment", "", "agent %d is none of the %d agents", job.AgentIndex, job.AgentCount)
	}
	l := &layout{job: job, test: test, run: job.RunID, target: test.Target}
	root := job.Root
	if test.Engine == spec.S3 {
		if root, err = l.openStore(); err != nil {
			return nil, err
		}
	}
	if filepath.IsAbs(l.target) {
		if l.target, err = filepath.Rel(root, l.target); err != nil {
			return nil, invalid("target", "", "%w", err)
		}
	}
	if l.target = path.Clean(l.target); !filepath.IsLocal(l.target) {
		return nil, invalid("target", "name a folder beneath the root", "the target %s is not beneath the root %s", test.Target, job.Root)
	}
	l.base = strings.TrimPrefix(path.Join(root, l.target, l.run), "/") + "/"
	if !test.Shared {
		l.prefix = "agent-" + strconv.Itoa(job.AgentIndex) + "/"
	}
	for i := range test.Files {
		l.sets = append(l.sets, l.newSet(i))
	}
	return l, nil
}

// part returns which of how many parts of a shared thing is this agent's.
func (l *layout) part() (index, count uint64) {
	if l.test.Shared {
		return uint64(l.job.AgentIndex), uint64(l.job.AgentCount)
	}
	return 0, 1
}

// A set is a file set with what its files are called, how large they are and what is in them.
type set struct {
	*spec.FileSet
	folder string // from the run's folder
	seed   uint64 // of sizes
	id     uint64 // of contents
	sizes  *sampler
	leaves uint64 // folders in which files are

	// A changing set is one whose files come and go. Each thread has files of its own in it, and opens them by name.
	changing bool
	grows    bool     // the mix creates files or folders in it
	created  *sampler // the sizes of created files
}

func (l *layout) newSet(i int) *set {
	f := &l.test.Files[i]
	s := &set{FileSet: f, folder: l.prefix + f.Name, seed: mix(l.test.Seed, uint64(i)), sizes: newSampler(f.Size), leaves: 1}
	owner := uint64(0)
	if !l.test.Shared {
		owner = uint64(l.job.AgentIndex) + 1
	}
	s.id = mix(l.test.Seed, owner, uint64(i), 1)
	for range f.Tree.Depth {
		s.leaves *= uint64(f.Tree.Width)
	}
	s.created = s.sizes
	first := true
	for _, o := range l.test.Mix {
		if o.Files != f.Name {
			continue
		}
		if o.Kind == spec.Create && first {
			s.created, first = newSampler(o.Block), false
		}
		s.changing = s.changing || o.Kind == spec.Delete || o.Kind == spec.Rename
		s.grows = s.grows || o.Kind == spec.Create || o.Kind == spec.Mkdir
	}
	s.changing = s.changing || f.Count == 0
	s.grows = s.grows || s.changing
	return s
}

// size returns the size of a prepared file.
func (s *set) size(file uint64) int64 { return s.sizes.of(blend(s.seed, file)) }

// content returns what the contents of a prepared file are made from.
func (s *set) content(file uint64) uint64 { return blend(s.id, file) }

// appendLeaf appends the path of a folder in which files are.
func (s *set) appendLeaf(b []byte, leaf uint64) []byte {
	return s.appendFolder(b, s.Tree.Depth, s.leaves, leaf)
}

// appendFolder appends the path of a folder at a depth, at which there are as many as given.
func (s *set) appendFolder(b []byte, depth int, many, number uint64) []byte {
	b = append(b, s.folder...)
	for range depth {
		many /= uint64(s.Tree.Width)
		b = append(b, '/')
		b = strconv.AppendUint(b, number/many, 10)
		number %= many
	}
	return b
}

// appendFile appends the name of a prepared file within its folder.
func appendFile(b []byte, file uint64) []byte { return strconv.AppendUint(append(b, 'f'), file, 10) }

// appendMade appends the name of what an operation makes: c for a file, d for a folder.
func appendMade(b []byte, kind byte, agent, thread int, number uint64) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(agent), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(thread), 10)
	b = append(b, '.')
	return strconv.AppendUint(b, number, 10)
}

// path returns the path of a prepared file.
func (s *set) path(file uint64) string {
	return string(appendFile(append(s.appendLeaf(nil, file%s.leaves), '/'), file))
}

// folders returns the folders of the set, parents first.
func (s *set) folders(yield func(string) bool) {
	many := uint64(1)
	for depth := range s.Tree.Depth + 1 {
		for number := range many {
			if !yield(string(s.appendFolder(nil, depth, many, number))) {
				return
			}
		}
		many *= uint64(s.Tree.Width)
	}
}

// files returns the files of the set that this agent creates.
func (l *layout) files(s *set) func(func(uint64) bool) {
	index, count := l.part()
	return func(yield func(uint64) bool) {
		for f := index; f < s.Count && yield(f); f += count {
		}
	}
}

// A need is what a job will create before it runs. Blocks are those of its bytes that take space.
type need struct{ files, folders, bytes, blocks uint64 }

// need counts what the job needs. Sizes that are drawn are drawn one by one, which takes a while with millions of
// files: ctx ends it.
func (l *layout) need(ctx context.Context) (n need, err error) {
	if l.store == nil {
		n.folders = 1
	}
	if l.store == nil && l.prefix != "" {
		n.folders++
	}
	index, count := l.part()
	for _, s := range l.sets {
		if l.store == nil {
			n.folders += 1 + uint64(s.Tree.Folders())
		}
		if index >= s.Count {
			continue
		}
		files := (s.Count-index-1)/count + 1
		bytes := files * uint64(s.sizes.least) // a set has spec.MaxTotal at most
		if s.sizes.least < s.sizes.most {
			bytes = 0
			for f := range l.files(s) {
				if bytes = plus(bytes, uint64(s.size(f))); f>>12&0xf == 0 && ctx.Err() != nil {
					return n, ctx.Err()
				}
			}
		}
		n.files += files
		n.bytes = plus(n.bytes, bytes)
		if s.Blocks != spec.NoBlocks {
			n.blocks = plus(n.blocks, bytes)
		}
	}
	return n, nil
}

// uses returns the longest block of a set's operations, and their kinds.
func (l *layout) uses(s *set) (most int64, kinds map[spec.Kind]bool) {
	kinds = map[spec.Kind]bool{}
	for _, m := range l.test.Mix {
		if m.Files != s.Name {
			continue
		}
		kinds[m.Kind] = true
		_, long := m.Block.Range()
		if m.Kind == spec.Create {
			long = min(long, slice)
		}
		most = max(most, long)
	}
	if s.grows { // what ensure creates
		most = max(most, slice)
	}
	return most, kinds
}

// longest returns the longest block, in whole pages.
func (l *layout) longest() int {
	if l.store != nil {
		return s3.Piece
	}
	out := 1 << 16
	for _, s := range l.sets {
		most, _ := l.uses(s)
		out = max(out, (int(most)+page-1)/page*page)
	}
	return out
}

// buffers refuses a job whose buffers would not fit into the memory.
func (l *layout) buffers() error {
	if l.test.Engine == spec.Null {
		return nil
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fmt.Errorf("read the size of the memory: %w", err)
	}
	total := uint64(info.Totalram) * uint64(info.Unit)
	each, hint := l.buffersOfOne()
	if n := uint64(l.test.Jobs) * uint64(each); n > total/2 {
		return invalid("jobs", hint, "jobs: buffers of %d jobs with blocks of %d bytes take %d bytes, which is more than half of the memory", l.test.Jobs, l.longest(), n)
	}
	return nil
}

// buffersOfOne returns the bytes of the buffers of a thread, and what makes them fewer.
func (l *layout) buffersOfOne() (each int, hint string) {
	contents := map[int]bool{}
	for _, s := range l.sets {
		contents[s.Content.Compressible] = true
	}
	longest := l.longest()
	each = longest + len(contents)*(period+longest)
	switch {
	case l.store != nil && l.sendsParts():
		return each + l.store.PartsAtOnce*s3.PartBuffers, "use fewer jobs, less depth or fewer parts_at_once"
	case l.store != nil:
		return each, "use fewer jobs or less depth"
	case l.test.Engine == spec.Uring:
		return each + l.test.Depth*longest, "use fewer jobs, less depth or smaller blocks"
	}
	return each, "use fewer jobs or smaller blocks"
}

// plus adds up to the greatest number, and no further.
func plus(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	return sum | -carry
}

// check compares the need with what the agent allows.
func (n need) check(j Job) error {
	const hint = "make files fewer or smaller, or allow the agent more"
	if j.LimitBytes > 0 && n.bytes > j.LimitBytes {
		return invalid("files", hint, "the files have %d bytes, and %d are allowed in %s", n.bytes, j.LimitBytes, j.Root)
	}
	if j.LimitFiles > 0 && n.files+n.folders > j.LimitFiles {
		return invalid("files", hint, "there would be %d files and folders, and %d are allowed in %s", n.files+n.folders, j.LimitFiles, j.Root)
	}
	return nil
}
