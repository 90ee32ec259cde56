package definitions

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// A shelf is a source that counts its reads.
type shelf struct {
	sources map[rowkey.Definition][]byte
	err     error
	reads   int
}

func (s *shelf) Definition(_ context.Context, key rowkey.Definition) (*pawl.Definition, error) {
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	source, ok := s.sources[key]
	if !ok {
		return nil, store.ErrNotFound
	}
	return &pawl.Definition{Key: key, Source: source}, nil
}

// TestGet: a definition is read once, and is known to be stored; one that cannot be read is
// an error of a kind that says why, and is read again.
func TestGet(t *testing.T) {
	t.Parallel()
	def, err := workflow.Parse("n.yaml", []byte("name: n\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	key := KeyOf(def.Hash())
	s := &shelf{sources: map[rowkey.Definition][]byte{key: def.Canonical(), 7: []byte("{")}}
	c := New(s)
	for range 2 {
		got, err := c.Get(t.Context(), key)
		if err != nil || got.Hash() != def.Hash() || !c.IsStored(key) || c.Of(key) != got {
			t.Fatalf("%v, %v; want the definition, known from now on", got, err)
		}
	}
	if s.reads != 1 {
		t.Errorf("read %d times", s.reads)
	}
	for want, key := range map[pawl.Kind]rowkey.Definition{pawl.Internal: 7, pawl.NotFound: 8} {
		if _, err := c.Get(t.Context(), key); pawl.KindOf(err) != want || !store.Unreadable(err) {
			t.Errorf("definition %d: %v; want an error of kind %v", key, err, want)
		}
	}
	s.err = &pawl.Error{Kind: pawl.Unavailable, Message: "away"}
	if _, err := c.Get(t.Context(), 8); pawl.KindOf(err) != pawl.Unavailable || store.Unreadable(err) {
		t.Errorf("%v; want the error of the database", err)
	}
	if _, err := c.Get(t.Context(), key); err != nil {
		t.Errorf("%v; want what is known without a database", err)
	}
}

// TestLoad: what a user submits is parsed once, and is not taken to be stored.
func TestLoad(t *testing.T) {
	t.Parallel()
	def, err := workflow.Parse("n.yaml", []byte("name: n\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := New(&shelf{})
	first, err := c.Load(def.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Load(def.Canonical())
	if err != nil || again != first || c.IsStored(KeyOf(def.Hash())) {
		t.Errorf("%v; want the same definition, not taken to be stored", err)
	}
	if _, err := c.Load([]byte("{")); err == nil {
		t.Error("a source that does not load is accepted")
	}
}
