package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/control"
)

func (s *Service) serviceOperations() []operation {
	const tag, at = "services", "/api/hosts/{host}/services/{service}"
	verb := func(v control.Verb, repeat repetition, summary, detail string) operation {
		return operation{id: string(v) + "-service", method: post, path: at + "/" + string(v), role: Operator, everywhere: true, repeat: repeat, errors: []Slug{SlugNotFound, SlugConflict}, tag: tag,
			summary: summary, detail: detail + " The response comes when the order is accepted; get-service shows what follows.", add: does(s, s.orderService(v))}
	}
	return []operation{
		{id: "list-hosts", method: get, path: "/api/hosts", role: Viewer, everywhere: true, tag: tag,
			summary: "List the supervisors and servers of this machine", detail: "Lists the processes of the server's user on its machine that have services, by name.", add: does(s, s.listHosts)},
		{id: "list-services", method: get, path: "/api/services", role: Viewer, everywhere: true, tag: tag,
			summary: "List the services of all hosts", detail: "Lists services by host and id. What does not respond is left out: list-hosts says why.", add: does(s, s.listServices)},
		{id: "list-host-services", method: get, path: "/api/hosts/{host}/services", role: Viewer, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List the services of a host", detail: "Lists services by id.", add: does(s, s.listHostServices)},
		{id: "get-service", method: get, path: at, role: Viewer, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a service", detail: "Reads a service: its state, what is wanted, its process and its probes.", add: does(s, s.getService)},
		{id: "explain-service", method: get, path: at + "/why", role: Viewer, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Say why a service does not run, or is not ready", detail: "Says why a service is in its state, and what would change that.", add: does(s, s.explainService)},
		{id: "list-service-history", method: get, path: at + "/history", role: Viewer, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List every move of a service", detail: "Lists the moves of a service, oldest first, across restarts of its host.", add: does(s, s.listServiceHistory)},
		{id: "read-service-log", method: get, path: at + "/logs", role: Viewer, everywhere: true, errors: []Slug{SlugNotFound, SlugRateLimited}, tag: tag,
			summary: "Read what a service has printed", detail: "Streams the output of a service as it was printed.", add: streamsBytes(s, s.readServiceLog)},
		{id: "list-service-actions", method: get, path: at + "/actions", role: Viewer, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Say what the caller can do with a service", detail: "Lists verbs, each with whether it has an effect now and the caller may, and if not, why: the host of the service says so, and changes nothing.", add: does(s, s.listServiceActions)},
		verb(control.Start, settles, "Start a service", "Starts a service, after those that it needs."),
		verb(control.Stop, settles, "Stop a service", "Stops a service until it is started again."),
		verb(control.Restart, settles, "Restart a service", "Stops a service and starts it again. A repeated request restarts it once more."),
		{id: "reload-host", method: post, path: "/api/hosts/{host}/reload", role: Admin, everywhere: true, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict}, tag: tag,
			summary: "Make a supervisor read its file again", detail: "Reads the file of the services again, applies it, and returns what has changed. An invalid file changes nothing.", add: does(s, s.reloadHost)},
	}
}

// A HostPath names a supervisor or server.
type HostPath struct {
	Host string `path:"host" doc:"The name of a supervisor or server." example:"shop"`
}

// A ServicePath names a service.
type ServicePath struct {
	HostPath
	Service string `path:"service" doc:"The id of a service." example:"web"`
}

// host returns a client of a host.
func (s *Service) host(p HostPath) (*control.Client, error) {
	c, err := control.Connect(s.Sockets, p.Host)
	if err != nil {
		return nil, asName(err)
	}
	return c, nil
}

// noHost turns the error that a host does not run to one that there is none.
func noHost(err error) error {
	var gone *control.GoneError
	if errors.As(err, &gone) {
		return &pawl.Error{Kind: pawl.NotFound, Message: err.Error(), Hint: "list what runs with: GET /api/hosts"}
	}
	return err
}

// hosts returns the hosts that respond, and the error of those that do not.
func (s *Service) hosts(ctx context.Context) ([]*control.Client, error) {
	if s.Sockets == "" {
		return nil, nil
	}
	return control.Hosts(ctx, s.Sockets)
}

func (s *Service) listHosts(ctx context.Context, _ *struct{}) (*body[page[control.HostView]], error) {
	hosts, err := s.hosts(ctx)
	if err != nil && len(hosts) == 0 {
		return nil, err
	}
	var all []control.HostView
	for _, h := range hosts {
		all = append(all, control.HostView{About: h.About})
	}
	if err != nil {
		all = append(all, control.HostView{Problem: err.Error()})
	}
	return pageOf(all, ""), nil
}

func (s *Service) listServices(ctx context.Context, in *struct{ Window }) (*body[page[control.Service]], error) {
	hosts, err := s.hosts(ctx)
	if err != nil && len(hosts) == 0 {
		return nil, err
	}
	found, _ := control.ServicesOf(ctx, hosts) // of those that respond
	all := make([]control.Service, len(found))
	for i := range found {
		all[i] = shown(found[i].Service)
	}
	return indexedPage(in.Window, all, "services")
}

// shown returns a service with lists in place of null.
func shown(v control.Service) control.Service {
	if v.Why == nil {
		v.Why = []string{}
	}
	return v
}

// indexedPage returns a page of a list that is whole in memory.
func indexedPage[T any](w Window, all []T, filter ...any) (*body[page[T]], error) {
	return placedPage(w, filter, func(after string, limit int) ([]T, string, error) {
		first := 0
		if after != "" {
			n, err := strconv.Atoi(after)
			if err != nil || n < 0 {
				return nil, "", pawl.Errorf(pawl.Invalid, "cursor: want the next of a page")
			}
			first = min(n, len(all))
		}
		last := min(first+limit, len(all))
		if last < len(all) {
			return all[first:last], fmt.Sprint(last), nil
		}
		return all[first:last], "", nil
	})
}

func (s *Service) listHostServices(ctx context.Context, in *struct {
	HostPath
	Window
}) (*body[page[control.Service]], error) {
	c, err := s.host(in.HostPath)
	if err != nil {
		return nil, err
	}
	all, err := c.Services(ctx)
	if err != nil {
		return nil, noHost(err)
	}
	for i := range all {
		all[i] = shown(all[i])
	}
	return indexedPage(in.Window, all, "services", in.Host)
}

// service returns a client of a host, and a service of it.
func (s *Service) service(ctx context.Context, p ServicePath) (*control.Found, error) {
	c, err := s.host(p.HostPath)
	if err != nil {
		return nil, err
	}
	v, err := c.Service(ctx, p.Service)
	if err != nil {
		return nil, noHost(err)
	}
	return &control.Found{Client: c, Service: shown(v)}, nil
}

func (s *Service) getService(ctx context.Context, in *struct{ ServicePath }) (*body[control.Service], error) {
	f, err := s.service(ctx, in.ServicePath)
	if err != nil {
		return nil, err
	}
	return &body[control.Service]{f.Service}, nil
}

func (s *Service) explainService(ctx context.Context, in *struct{ ServicePath }) (*body[control.Reasons], error) {
	f, err := s.service(ctx, in.ServicePath)
	if err != nil {
		return nil, err
	}
	return &body[control.Reasons]{f.Reasons()}, nil
}

func (s *Service) listServiceHistory(ctx context.Context, in *struct {
	ServicePath
	Window
}) (*body[page[pawl.Transition]], error) {
	f, err := s.service(ctx, in.ServicePath)
	if err != nil {
		return nil, err
	}
	moves, err := f.Client.History(ctx, f.ID)
	if err != nil {
		return nil, noHost(err)
	}
	return indexedPage(in.Window, moves, "service", in.Host, in.Service)
}

func (s *Service) listServiceActions(ctx context.Context, in *struct{ ServicePath }) (*body[page[offer]], error) {
	f, err := s.service(ctx, in.ServicePath)
	if err != nil {
		return nil, err
	}
	offers, err := f.Client.Offers(ctx, f.ID)
	if err != nil {
		return nil, noHost(err)
	}
	all := make([]offer, len(offers))
	for i, o := range offers {
		if all[i] = (offer{string(o.Verb), o.OK, o.WhyNot}); !access.Of(ctx).Holds(Operator) {
			all[i].OK, all[i].WhyNot = false, needsRole(Operator)
		}
	}
	return pageOf(all, ""), nil
}

func (s *Service) orderService(v control.Verb) func(context.Context, *struct {
	ServicePath
	Command
}) (*body[control.Service], error) {
	return func(ctx context.Context, in *struct {
		ServicePath
		Command
	}) (*body[control.Service], error) {
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		f, err := s.service(ctx, in.ServicePath)
		if err != nil {
			return nil, err
		}
		after, err := f.Client.Order(ctx, f.ID, control.Order{Verb: v, Change: c})
		if err != nil {
			return nil, noHost(err)
		}
		return &body[control.Service]{shown(after)}, nil
	}
}

func (s *Service) reloadHost(ctx context.Context, in *struct {
	HostPath
	Command
}) (*body[page[control.Difference]], error) {
	c, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	h, err := s.host(in.HostPath)
	if err != nil {
		return nil, err
	}
	differences, err := h.Reload(ctx, c)
	if err != nil {
		return nil, noHost(err)
	}
	return pageOf(differences, ""), nil
}

func (s *Service) readServiceLog(ctx context.Context, in *struct {
	ServicePath
	Tail   int  `query:"tail" minimum:"-1" maximum:"1000000" default:"100" doc:"How many of the last lines. -1: all that is kept."`
	Follow bool `query:"follow" doc:"Go on until the client leaves, or the host ends."`
}, w http.ResponseWriter) error {
	f, err := s.service(ctx, in.ServicePath)
	if err != nil {
		return err
	}
	return noHost(f.Client.Logs(ctx, f.ID, control.LogQuery{Tail: in.Tail, Follow: in.Follow}, w))
}

const octets = "application/octet-stream"

// maxByteStreams is how many streams of bytes may be open at once: some are followed for hours.
const maxByteStreams = 64

// streamsBytes makes the function of an operation that writes bytes one of the HTTP library. An
// error before the first byte is a problem; later it ends the connection.
func streamsBytes[I any](s *Service, do func(context.Context, *I, http.ResponseWriter) error) func(huma.API, huma.Operation) {
	return func(to huma.API, o huma.Operation) {
		o.Responses = map[string]*huma.Response{"200": {Description: "Bytes.", Content: map[string]*huma.MediaType{octets: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}}
		huma.Register(to, o, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
			select {
			case s.flowing <- struct{}{}:
			default:
				p := Problemf(SlugRateLimited, "%d streams of bytes are open, as many as may be at once", cap(s.flowing))
				p.RetryAfter = streamTime
				return nil, p
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				defer func() { <-s.flowing }()
				_, w := humago.Unwrap(c)
				out := &byteWriter{ResponseWriter: w, lineWriter: lineWriter{c: c, w: w, media: octets}}
				err := do(ctx, in, out)
				switch {
				case err == nil:
					out.begin()
				case !out.begun:
					s.problem(ctx, o.OperationID, err).write(w, c.SetStatus)
				default:
					s.Log.Warn("a stream of bytes was cut", "operation", o.OperationID, "request_id", RequestIDOf(ctx), "error", err)
					panic(http.ErrAbortHandler)
				}
			}}, nil
		})
	}
}

// A byteWriter is the response of a stream of bytes.
type byteWriter struct {
	http.ResponseWriter
	lineWriter
}

func (b *byteWriter) Write(p []byte) (int, error) { return b.lineWriter.Write(p) }

// Unwrap is for http.ResponseController.
func (b *byteWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }
