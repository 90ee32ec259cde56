package workload

import (
	"math/bits"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// sizeClasses are the classes of OperationStats.size_class, by their index.
var sizeClasses = [...]string{"0", "<=4KiB", "<=64KiB", "<=512KiB", "<=4MiB", "<=32MiB", "<=256MiB", "<=2GiB", ">2GiB"}

const classCount = len(sizeClasses)

// classByBits has the size class by the number of bits of the size less one.
var classByBits = func() (t [65]uint8) {
	limits := [...]int{12, 16, 19, 22, 25, 28, 31}
	for b := range t {
		class := 1
		for _, l := range limits {
			if b > l {
				class++
			}
		}
		t[b] = uint8(class)
	}
	return t
}()

// classOfSize returns the index of the size class of a number of bytes.
func classOfSize(n int64) int {
	if n <= 0 {
		return 0
	}
	return int(classByBits[bits.Len64(uint64(n-1))])
}

// A cell counts one kind of operation on things of one size class.
type cell struct {
	operations, bytes uint64
	errors            [errorClasses]uint64
	service           histogram.Histogram
	response          *histogram.Histogram // nil without a rate
	first             *histogram.Histogram // to the first byte of a content; nil unless objects are read
	retries           uint64
}

// A slot counts one interval of one thread, or of all. A cell is there once something was counted in it.
type slot struct {
	interval int64
	backlog  uint64
	cells    []*cell // kind*classCount + size class
}

func newSlot() *slot { return &slot{cells: make([]*cell, len(spec.Kinds)*classCount)} }

// cell returns a cell, and makes it the first time.
func (s *slot) cell(i int, rated bool) *cell {
	c := s.cells[i]
	if c == nil {
		c = &cell{}
		if rated {
			c.response = &histogram.Histogram{}
		}
		s.cells[i] = c
	}
	return c
}

// empty reports whether the cell has counted nothing.
func (c *cell) empty() bool {
	return c.operations == 0 && c.retries == 0 && c.errors == [errorClasses]uint64{}
}

// firstByte returns the histogram of the times to the first byte, and makes it the first time.
func (c *cell) firstByte() *histogram.Histogram {
	if c.first == nil {
		c.first = &histogram.Histogram{}
	}
	return c.first
}

// add adds another slot.
func (s *slot) add(other *slot) {
	s.backlog += other.backlog
	for i, from := range other.cells {
		if from == nil || from.empty() {
			continue
		}
		c := s.cell(i, from.response != nil)
		c.operations += from.operations
		c.bytes += from.bytes
		for class, n := range from.errors {
			c.errors[class] += n
		}
		c.service.Merge(&from.service)
		if from.response != nil {
			c.response.Merge(from.response)
		}
		if from.first != nil {
			c.firstByte().Merge(from.first)
		}
		c.retries += from.retries
	}
}

// reset makes the slot empty and keeps its memory.
func (s *slot) reset() {
	s.backlog = 0
	for _, c := range s.cells {
		if c == nil {
			continue
		}
		c.operations, c.bytes, c.errors, c.retries = 0, 0, [errorClasses]uint64{}, 0
		c.service.Reset()
		if c.response != nil {
			c.response.Reset()
		}
		if c.first != nil {
			c.first.Reset()
		}
	}
}

// proto returns what was counted as it is sent, in the order of kinds and sizes.
func (s *slot) proto() (all []*loadpb.OperationStats) {
	for i, c := range s.cells {
		if c == nil || c.empty() {
			continue
		}
		kind := spec.Kinds[i/classCount]
		o := &loadpb.OperationStats{
			Operation: string(kind), Operations: c.operations, Bytes: c.bytes,
			Service: stats.Encode(&c.service), Response: stats.Encode(c.response), FirstByte: stats.Encode(c.first), Retries: c.retries,
		}
		if kind.HasData() {
			o.SizeClass = sizeClasses[i%classCount]
		}
		for class, n := range c.errors {
			if n > 0 {
				if o.Errors == nil {
					o.Errors = map[string]uint64{}
				}
				o.Errors[classNames[class]] = n
			}
		}
		all = append(all, o)
	}
	return all
}
