package engine

import (
	crand "crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// A mint makes ids. Ids of one second count on from a random start, so that two
// processes hardly ever make the same key; when they do, the database tells and
// new ones are made.
type mint struct {
	mu      sync.Mutex
	second  int64
	counter uint32
}

func (m *mint) next(now time.Time) pawl.ID {
	entropy := random()
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := now.Unix(); s > m.second {
		m.second, m.counter = s, uint32(random()>>33) // the upper half is left to count into
	}
	m.counter++
	return pawl.MakeID(time.UnixMilli(max(now.UnixMilli(), m.second*1000)), m.counter, entropy)
}

func random() uint64 {
	var b [8]byte
	crand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
