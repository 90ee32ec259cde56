// Package definitions reads the definitions of workflows from a store and keeps them in
// memory. They are kept by their hash and never change, so that nothing is ever invalidated.
//
// What decides within a transaction uses the Known ones alone, since it must not read; what
// works outside of one calls Get. The cache holds a bounded number, and is emptied when it is
// full.
package definitions

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

// A Source is a store as far as it is read for definitions.
type Source interface {
	// Definition reads a definition. The error is store.ErrNotFound if there is none.
	Definition(ctx context.Context, key rowkey.Definition) (*pawl.Definition, error)
}

// A Cache reads definitions and keeps them in memory. It is safe for concurrent use.
type Cache struct {
	source Source
	*Known
}

// Known holds the definitions in memory. A transaction uses no others.
type Known struct {
	mu     sync.Mutex
	byKey  map[rowkey.Definition]*workflow.Definition
	stored map[rowkey.Definition]bool // known to be in the database
}

// New returns an empty cache of the definitions in a store.
func New(s Source) *Cache {
	return &Cache{s, &Known{byKey: make(map[rowkey.Definition]*workflow.Definition), stored: make(map[rowkey.Definition]bool)}}
}

// KeyOf returns the key of the definition with that hash.
func KeyOf(hash [32]byte) rowkey.Definition {
	return rowkey.Definition(binary.BigEndian.Uint64(hash[:8]) >> 1)
}

// Get returns a stored definition. The error is of kind NotFound if there is none, and of kind
// Internal if this program cannot read it.
func (d *Cache) Get(ctx context.Context, key rowkey.Definition) (*workflow.Definition, error) {
	def := d.Of(key)
	if def != nil {
		return def, nil
	}
	row, err := d.source.Definition(ctx, key)
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
	d.MarkStored(key)
	return def, nil
}

// Load returns the definition with that canonical source, from memory if possible.
func (d *Cache) Load(source []byte) (*workflow.Definition, error) {
	sum := sha256.Sum256(source)
	key := KeyOf(sum)
	if known := d.Of(key); known != nil && known.Hash() == sum {
		return known, nil
	}
	def, err := workflow.Load(source)
	if err != nil {
		return nil, err
	}
	d.keep(KeyOf(def.Hash()), def)
	return def, nil
}

// Of returns the definition with that key, or nil if it is not in memory.
func (d *Known) Of(key rowkey.Definition) *workflow.Definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byKey[key]
}

func (d *Known) keep(key rowkey.Definition, def *workflow.Definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.byKey) >= maxDefinitions {
		clear(d.byKey)
		clear(d.stored)
	}
	d.byKey[key] = def
}

// MarkStored records that the definition with that key is in the database.
func (d *Known) MarkStored(key rowkey.Definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stored[key] = true
}

// IsStored reports whether the definition with that key is known to be in the database.
func (d *Known) IsStored(key rowkey.Definition) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stored[key]
}
