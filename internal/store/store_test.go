package store_test

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestNoChangeIsOverlooked: changes with anything in them are written.
func TestNoChangeIsOverlooked(t *testing.T) {
	t.Parallel()
	if c := (store.Changes{}); !c.Empty() {
		t.Error("no changes: want Empty")
	}
	of := reflect.TypeFor[store.Changes]()
	for i := range of.NumField() {
		var c store.Changes
		fill(reflect.ValueOf(&c).Elem().Field(i))
		if c.Empty() {
			t.Errorf("changes with %s: Empty reports true", of.Field(i).Name)
		}
	}
}

// fill puts an element into a slice or a map.
func fill(v reflect.Value) {
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 1, 1))
}
