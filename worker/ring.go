package worker

// A ring keeps the last limit bytes that were written to it. It allocates as it fills.
type ring struct {
	limit int
	buf   []byte
	next  int // where the next byte goes once buf is full
}

func (r *ring) Write(p []byte) (int, error) {
	n := len(p)
	if n >= r.limit {
		r.buf, r.next = append(r.buf[:0], p[n-r.limit:]...), 0
		return n, nil
	}
	if room := r.limit - len(r.buf); room > 0 {
		head := p[:min(room, len(p))]
		r.buf = append(r.buf, head...)
		p = p[len(head):]
	}
	for len(p) > 0 {
		copied := copy(r.buf[r.next:], p)
		r.next = (r.next + copied) % r.limit
		p = p[copied:]
	}
	return n, nil
}

// bytes returns what is kept, oldest first.
func (r *ring) bytes() []byte {
	out := make([]byte, 0, len(r.buf))
	return append(append(out, r.buf[r.next:]...), r.buf[:r.next]...)
}
