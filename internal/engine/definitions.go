package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// maxDefinitions bounds the definitions kept in memory.
const maxDefinitions = 1000

// definitions reads definitions and caches them in memory; a definition never changes.
type definitions struct {
	views store.Views
	*known
}

// known holds the definitions in memory. A transaction uses no others.
type known struct {
	mu     sync.Mutex
	byKey  map[rowkey.Definition]*workflow.Definition
	stored map[rowkey.Definition]bool // known to be in the database
}

func newDefinitions(v store.Views) *definitions {
	return &definitions{v, &known{byKey: make(map[rowkey.Definition]*workflow.Definition), stored: make(map[rowkey.Definition]bool)}}
}

// definitionKey returns the key of the definition with that hash.
func definitionKey(hash [32]byte) rowkey.Definition {
	return rowkey.Definition(binary.BigEndian.Uint64(hash[:8]) >> 1)
}

// get returns a stored definition.
func (d *definitions) get(ctx context.Context, key rowkey.Definition) (*workflow.Definition, error) {
	def := d.of(key)
	if def != nil {
		return def, nil
	}
	row, err := d.views.Definition(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, pawl.Errorf(pawl.NotFound, "the definition %d is not in the database", key)
	}
	if err != nil {
		return nil, err
	}
	if def, err = workflow.Load(row.Source); err != nil {
		return nil, &pawl.Error{Kind: pawl.Internal, Message: "a stored definition does not load", Hint: "was it written by a newer version of pawl?", Err: err}
	}
	d.keep(key, def)
	d.markStored(key)
	return def, nil
}

// load returns the definition with that canonical source, from memory if possible.
func (d *definitions) load(source []byte) (*workflow.Definition, error) {
	sum := sha256.Sum256(source)
	key := definitionKey(sum)
	if known := d.of(key); known != nil && known.Hash() == sum {
		return known, nil
	}
	def, err := workflow.Load(source)
	if err != nil {
		return nil, err
	}
	d.keep(definitionKey(def.Hash()), def)
	return def, nil
}

// of returns the definition with that key, or nil if it is not in memory.
func (d *known) of(key rowkey.Definition) *workflow.Definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byKey[key]
}

func (d *known) keep(key rowkey.Definition, def *workflow.Definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.byKey) >= maxDefinitions {
		clear(d.byKey)
		clear(d.stored)
	}
	d.byKey[key] = def
}

func (d *known) markStored(key rowkey.Definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stored[key] = true
}

func (d *known) isStored(key rowkey.Definition) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stored[key]
}
