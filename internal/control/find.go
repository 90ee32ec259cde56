package control

import (
	"context"
	"errors"
)

// A Found is a service, and the host that has it.
type Found struct {
	Client *Client
	Service
}

// Name is unique among the services of all hosts: HOST/ID.
func (f *Found) Name() string { return f.Client.Name() + "/" + f.ID }

// Match returns the services that a text names: an id, or HOST/ID.
func Match(all []Found, text string) (fit []*Found) {
	for i := range all {
		if all[i].ID == text || all[i].Name() == text {
			fit = append(fit, &all[i])
		}
	}
	return fit
}

// ServicesOf returns the services of hosts, by host and id.
func ServicesOf(ctx context.Context, hosts []*Client) ([]Found, error) {
	var all []Found
	var errs []error
	for _, h := range hosts {
		services, err := h.Services(ctx)
		errs = append(errs, err)
		for _, s := range services {
			all = append(all, Found{h, s})
		}
	}
	return all, errors.Join(errs...)
}

// Names returns for each service what names it alone: its id, or HOST/ID if several hosts
// have one of that id.
func Names(all []Found) []string {
	hosts := map[string]int{}
	for i := range all {
		hosts[all[i].ID]++
	}
	names := make([]string, len(all))
	for i := range all {
		if names[i] = all[i].ID; hosts[all[i].ID] > 1 {
			names[i] = all[i].Name()
		}
	}
	return names
}

// Reasons is why a service is in its state.
type Reasons struct {
	ID     string   `json:"id"`
	Host   string   `json:"host"`
	State  string   `json:"state"`
	Wanted string   `json:"wanted"`
	Why    []string `json:"why"`

	Unrecorded *Unrecorded `json:"unrecorded,omitempty"`
}

// Reasons returns why the service is in its state.
func (f *Found) Reasons() Reasons {
	return Reasons{f.ID, f.Client.Name(), f.State, f.Wanted, append([]string{}, f.Why...), f.Unrecorded}
}
