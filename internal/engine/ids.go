package engine

import (
	crand "crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// A mint makes ids. The counter of an id begins with the millisecond, so that ids of all
// processes sort by time. The rest counts up from a random start, so that two processes
// rarely make the same key. If they do, the database reports it and new ids are made.
type mint struct {
	mu      sync.Mutex
	second  int64
	counter uint32
}

// counterBits is the number of counter bits below the millisecond.
const counterBits = 22

func (m *mint) next(now time.Time) pawl.ID {
	entropy := random()
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := now.Unix(); s > m.second {
		m.second, m.counter = s, 0
	}
	start := uint32(now.Nanosecond()/1e6)<<counterBits | uint32(entropy>>(64-counterBits+1)) // half of the range is left to count up
	if m.counter++; now.Unix() == m.second {
		m.counter = max(m.counter, start)
	}
	return pawl.MakeID(time.UnixMilli(max(now.UnixMilli(), m.second*1000)), m.counter, entropy)
}

func random() uint64 {
	var b [8]byte
	crand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
