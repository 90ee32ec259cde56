//go:build linux

package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sector = 512     // has a stamp of its own, so that no two blocks on a disk are alike
	period = 1 << 20 // after which contents repeat but for their stamps
	page   = 4096
)

// A content makes what is written. A byte of a file depends on its offset alone, but for the
// stamp at the beginning of each sector, which has the file and the sector mixed in: what is read
// can be verified in any order, and data that is as good as random costs a store for 512 bytes.
type content struct {
	base []byte // a period, its beginning again, and room for the rest of a sector
	most int    // the length that one call can have
}

// newContent returns a content of which the given percentage compresses away.
func newContent(seed uint64, compressible, most int) (*content, error) {
	base, err := alignedBuffer(period+most+2*page, most)
	if err != nil {
		return nil, err
	}
	r := random(seed)
	for at := 0; at < period; at += 8 {
		if at%page >= page*compressible/100 {
			binary.LittleEndian.PutUint64(base[at:], r.next())
		}
	}
	for at := period; at < len(base); at += copy(base[at:], base[:period]) {
	}
	return &content{base, most}, nil
}

// at returns n bytes of a file from an offset. They are valid until the next call.
func (c *content) at(file uint64, offset int64, n int) []byte {
	from := int(offset % period)
	c.stamp(from-int(offset%sector), file, uint64(offset)/sector, from+n)
	return c.base[from : from+n]
}

// freshBlock returns n bytes unlike those of other generations. They are valid until the next call.
func (c *content) freshBlock(n int, generation uint64) []byte {
	c.stamp(0, generation, 0, n)
	return c.base[:n]
}

func (c *content) stamp(at int, file, number uint64, end int) {
	for v := file + number*0x9e3779b97f4a7c15; at < end; at += sector {
		binary.LittleEndian.PutUint64(c.base[at:], v)
		v += 0x9e3779b97f4a7c15
	}
}

// verify compares what was read from a file with what belongs there. With zeros, sectors that were never
// written have zeros.
func (c *content) verify(got []byte, file uint64, offset int64, zeros bool) error {
	want := c.at(file, offset, len(got))
	if bytes.Equal(got, want) {
		return nil
	}
	for at := 0; at < len(got); {
		end := min(len(got), at+sector-int((offset+int64(at))%sector))
		if !bytes.Equal(got[at:end], want[at:end]) && !(zeros && isZero(got[at:end])) {
			return fmt.Errorf("the sector at offset %d of the file has other contents than were written", offset+int64(at))
		}
		at = end
	}
	return nil
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

const (
	hugePage  = 2 << 20
	hugeBlock = 1 << 20 // from this size on blocks are to be in huge pages
)

// alignedBuffer returns n bytes or more of memory for blocks of a size, which begin at a page and which the collector of
// garbage leaves alone, until freeBuffer. That of large blocks begins at a huge page, and the system is asked for such
// pages: it gives them as far as it has them. A device takes a block in as many pieces as it has in memory, and how many
// may be in a request is limited, so that small pages make the time for a block depend on how fragmented memory is.
func alignedBuffer(n, block int) ([]byte, error) {
	unit, populate := page, unix.MAP_POPULATE
	if block >= hugeBlock {
		unit, populate = hugePage, 0
	}
	n = (max(n, 1) + unit - 1) / unit * unit
	start, err := unix.MmapPtr(-1, 0, nil, uintptr(n+unit-page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|populate)
	if err != nil {
		return nil, fmt.Errorf("allocate a buffer of %d bytes: %w", n, err)
	}
	before := -int(uintptr(start)) & (unit - 1)
	all := unsafe.Slice((*byte)(start), n+unit-page)
	freeBuffer(all[:before])
	freeBuffer(all[before+n:])
	b := all[before : before+n : before+n]
	if populate == 0 {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // without huge pages, others do
		for at := 0; at < n; at += page {
			b[at] = 0
		}
	}
	return b, nil
}

// freeBuffer gives memory back, in whole pages. It is of alignedBuffer, or empty.
func freeBuffer(b []byte) {
	if len(b) > 0 {
		_ = unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(len(b))) // it was mapped
	}
}

func (c *content) free() { freeBuffer(c.base) }
