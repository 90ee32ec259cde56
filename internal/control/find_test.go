package control

import (
	"slices"
	"testing"
)

// TestNamesOfServices: a service of an id that several hosts have is named with its host.
func TestNamesOfServices(t *testing.T) {
	t.Parallel()
	shop, blog := &Client{name: "shop"}, &Client{name: "blog"}
	all := []Found{{shop, Service{ID: "web"}}, {shop, Service{ID: "db"}}, {blog, Service{ID: "web"}}}
	names := Names(all)
	if want := []string{"shop/web", "db", "blog/web"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	for i, name := range names {
		if fit := Match(all, name); len(fit) != 1 || fit[0] != &all[i] {
			t.Errorf("%s names %d services: want its own alone", name, len(fit))
		}
	}
}
