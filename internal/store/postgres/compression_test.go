package postgres

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestBodiesAreCompressedWithLZ4: unless the URL says otherwise.
func TestBodiesAreCompressedWithLZ4(t *testing.T) {
	t.Parallel()
	for parameter, want := range map[string]string{
		"":                                "lz4",
		"&default_toast_compression=pglz": "pglz",
		"&options=-c%20default_toast_compression%3Dpglz": "pglz",
	} {
		t.Run(want+parameter, func(t *testing.T) {
			t.Parallel()
			db := open(t, fresh(t).cfg.URL+parameter)
			do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
				j := d.newJob(1)
				d.newStep(j, 1, 1)
				j.Inputs = []byte(`"` + strings.Repeat("a text that compresses; ", 1000) + `"`)
			})
			_, rows, err := query(t.Context(), db.cfg.URL, "select pg_column_compression(inputs) from job")
			if err != nil || len(rows) != 1 || rows[0][0] != want {
				t.Errorf("inputs are compressed with %v, %v; want %s", rows, err, want)
			}
		})
	}
}

// TestAServerWithoutTheCompression: it compresses as it can, and the connection is good.
func TestAServerWithoutTheCompression(t *testing.T) {
	t.Parallel()
	conn := connectTo(t, fresh(t).cfg.URL)
	if err := compressing("unheard_of")(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	var method string
	if err := conn.QueryRow(t.Context(), "show default_toast_compression").Scan(&method); err != nil || method != "pglz" {
		t.Errorf("%s, %v; want pglz", method, err)
	}
}
