package age

import "testing"

func TestAges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"30d": "30d", "1h": "1h", "36h": "36h", "48h": "2d", "1.5d": "36h", "90m": "1h30m", "1h0m5s": "1h0m5s",
		"0.5h": "", "10m": "", "d": "", "-3d": "", "1e9d": "", "NaNd": "", "": "", "30": ""} {
		var g Age
		if err := g.Set(text); (err != nil) != (want == "") || err == nil && g.String() != want {
			t.Errorf("%q: %s, %v; want %q", text, &g, err, want)
		}
	}
}
