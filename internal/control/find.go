package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Alive returns the hosts of a folder of sockets that are alive, or the one of that name.
// The error is about live hosts that do not respond; there may be others all the same.
func Alive(ctx context.Context, dir, only string) ([]*Client, error) {
	all, err := Hosts(ctx, dir)
	if only != "" {
		all = slices.DeleteFunc(all, func(c *Client) bool { return c.Name() != only })
	}
	return all, err
}

// A MatchError is returned when a text does not name exactly one service.
type MatchError struct {
	Text  string
	Names []string // of the services that it may mean; of all if it means none
	None  bool
}

func (e *MatchError) Error() string {
	if e.None {
		return fmt.Sprintf("there is no service %.100q", e.Text)
	}
	return fmt.Sprintf("service %s: %d supervisors have a service of that id", e.Text, len(e.Names))
}

// Find returns the one service of some hosts that a text names; see [Match]. The error is a
// *[MatchError], unless a host that does not respond may have that service.
func Find(ctx context.Context, hosts []*Client, text string) (*Found, error) {
	all, err := ServicesOf(ctx, hosts)
	fit := Match(all, text)
	if len(fit) == 1 {
		return fit[0], nil
	}
	e := &MatchError{Text: text, None: len(fit) == 0}
	for _, f := range fit {
		e.Names = append(e.Names, f.Name())
	}
	if !e.None {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	for i := range all {
		e.Names = append(e.Names, all[i].ID)
	}
	return nil, e
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

	Startable bool `json:"startable,omitempty"` // it rests until it is ordered to start

	Unrecorded *Unrecorded `json:"unrecorded,omitempty"`
}

// Reasons returns why the service is in its state.
func (f *Found) Reasons() Reasons {
	return Reasons{f.ID, f.Client.Name(), f.State, f.Wanted, append([]string{}, f.Why...), f.Startable, f.Unrecorded}
}
