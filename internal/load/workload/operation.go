//go:build linux

package workload

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// An operation is one line of the mix, as all threads know it.
type operation struct {
	kind    spec.Kind
	row     int // of its cells
	index   int // in the mix
	set     *set
	setAt   int
	upTo    uint64 // it is chosen by numbers below, and not by those below the operation before it
	block   *sampler
	granule int64 // what random offsets are multiples of
	pattern spec.Pattern
	ranks   *zipf
	perFile uint64 // ranks of a file
	whole   bool   // objects, not blocks of them
}

// operations returns the mix, and the total of the weights.
func (p *prepared) operations() (all []*operation, weights uint64) {
	for i, m := range p.test.Mix {
		setAt := slices.IndexFunc(p.sets, func(s *set) bool { return s.Name == m.Files })
		weights += uint64(m.Weight)
		o := &operation{
			kind: m.Kind, row: slices.Index(spec.Kinds, m.Kind) * classCount, index: i, set: p.sets[setAt], setAt: setAt,
			upTo: weights, block: newSampler(m.Block), pattern: m.Access.Pattern, perFile: 1, whole: m.Whole(),
		}
		o.granule = max(o.block.least, 1)
		if p.align > 0 {
			o.granule = max(o.granule/int64(p.align), 1) * int64(p.align)
		}
		if o.pattern == spec.Zipf {
			o.zipf(m.Access.Theta)
		}
		all = append(all, o)
	}
	return all, weights
}

// zipf makes ranks of all blocks of all files or, where files come and go, of files.
func (o *operation) zipf(theta float64) {
	files := o.set.Count
	if o.set.changing {
		files = 1 << 20
	} else if (o.kind == spec.Read || o.kind == spec.Write) && !o.whole {
		o.perFile = uint64(max(o.set.sizes.most/o.granule, 1))
	}
	o.ranks = newZipf(files*o.perFile, theta)
}

// spot returns a number of a block of all files, by popularity: popular ones are spread.
func (o *operation) spot(r *random) uint64 {
	rank := random(o.ranks.draw(r))
	return rank.below(uint64(o.ranks.n))
}

// checkBlocks checks that the operations can be issued with the alignment of direct I/O.
func (p *prepared) checkBlocks() error {
	if p.align == 0 {
		return nil
	}
	for i, m := range p.test.Mix {
		sizes := []int64{m.Block.Fixed}
		for _, w := range m.Block.List {
			sizes = append(sizes, w.Size)
		}
		for _, size := range sizes {
			if m.Kind != spec.Create && size%int64(p.align) != 0 {
				return invalid(fmt.Sprintf("mix[%d].block", i), "", "direct: blocks have to be multiples of %d bytes here, got %d", p.align, size)
			}
		}
	}
	return nil
}

// A pool is the files of a changing set that one thread has, by number: from head to tail. The
// first of all are prepared, the others made. Files are deleted in their order, so that two numbers are all there is
// to remember.
type pool struct {
	head, tail uint64
	prepared   uint64 // how many of the numbers are of prepared files
	moved      uint64 // one more than the number of the file that has its other name; 0 if none has
	folders    uint64 // made
}

// A cursor is where a thread is in the sequence of an operation.
type cursor struct {
	begun   bool
	file    uint64
	at, end int64
}
