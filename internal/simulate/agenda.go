package simulate

import "container/heap"

// An agenda holds what is going to happen, earliest first. Items of the same time keep
// the order in which they were added.
type agenda struct {
	items []item
	seq   int
}

type item struct {
	at  int64 // microseconds
	seq int
	do  func() error
}

func (a *agenda) put(at int64, do func() error) {
	a.seq++
	heap.Push((*items)(&a.items), item{at, a.seq, do})
}

// next removes and returns the first item.
func (a *agenda) next() item { return heap.Pop((*items)(&a.items)).(item) }

type items []item

func (h items) Len() int { return len(h) }
func (h items) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h items) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *items) Push(x any)   { *h = append(*h, x.(item)) }
func (h *items) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
