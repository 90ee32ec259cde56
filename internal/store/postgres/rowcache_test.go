package postgres

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestOnlyKeysAreFoundInTheCache: a query that asks for anything but rows by their keys, and what
// waits in a job, is answered by the server.
func TestOnlyKeysAreFoundInTheCache(t *testing.T) {
	t.Parallel()
	keyed := map[string]bool{"Workers": true, "Watched": true, "Jobs": true, "Steps": true, "Waiting": true}
	of := reflect.TypeFor[store.Query]()
	for i := range of.NumField() {
		var q store.Query
		v := reflect.ValueOf(&q).Elem().Field(i)
		if v.Kind() != reflect.Slice { // Early asks for nothing
			continue
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if name := of.Field(i).Name; plainly(&q) != keyed[name] {
			t.Errorf("a query of %s: plainly is %v", name, plainly(&q))
		}
	}
}
