package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
)

func (s *Service) aboutOperations() []operation {
	return []operation{
		{id: "get-version", method: get, path: "/api/version", role: Anybody, tag: "server",
			summary: "Say which version this server has", detail: "Returns the version of the program, of the API, and of the database's schema. Within a version of the API, operations and fields are only added.", add: does(s, s.getVersion)},
		{id: "whoami", method: get, path: "/api/whoami", role: Viewer, tag: "server",
			summary: "Say who you are", detail: "Returns who the audit trail names for your commands, and what you may do.", add: does(s, s.whoami)},
	}
}

// A versions says what a server is.
type versions struct {
	Version string `json:"version" doc:"Of the program." example:"0.9.0"`
	API     int    `json:"api" doc:"Of the API."`
	Schema  int    `json:"schema" doc:"Of the database's schema."`
}

func (s *Service) getVersion(context.Context, *struct{}) (*body[versions], error) {
	return &body[versions]{versions{s.Program, Version, s.Schema}}, nil
}

// An Identity says who a caller is.
type Identity struct {
	Actor      string         `json:"actor" doc:"Whom the audit trail names: token: and the name of the token, oidc: and the name of the person, or what the header Pawl-Actor says."`
	Roles      []Role         `json:"roles" doc:"What the caller may do."`
	Workspaces []string       `json:"workspaces" doc:"Those that the token is for. None: all."`
	Token      *string        `json:"token_id" doc:"The id of the token, or null. Of a person it is that of the session."`
	ExpiresAt  pawl.Timestamp `json:"expires_at" doc:"When the token, or the session, ends; or null."`
}

func (s *Service) whoami(ctx context.Context, _ *struct{}) (*body[Identity], error) {
	return &body[Identity]{identityOf(access.Of(ctx), ActorOf(ctx))}, nil
}

func identityOf(who *access.Principal, actor string) Identity {
	i := Identity{Actor: actor, Roles: []Role{}, Workspaces: append([]string{}, who.Workspaces...), ExpiresAt: pawl.Timestamp(who.ExpiresAt)}
	for _, r := range pawl.TokenRoles {
		if who.Holds(r) {
			i.Roles = append(i.Roles, r)
		}
	}
	if who.Name != "" {
		id := who.Token.Public(pawl.TokenPrefix)
		i.Token = &id
	}
	return i
}

// documents adds the paths of the documents about the API.
func (s *Service) documents() {
	s.public("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		s.document(w, "application/openapi+json", func() ([]byte, error) { return json.Marshal(s.huma.OpenAPI()) })
	})
	s.public("GET "+problems+"{slug}", Explain)
	s.public("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		s.document(w, "application/openapi+yaml", s.huma.OpenAPI().YAML)
	})
	s.public("GET /openapi-3.0.json", func(w http.ResponseWriter, _ *http.Request) {
		s.document(w, "application/openapi+json", s.older)
	})
}

// public adds what anybody may read.
func (s *Service) public(pattern string, f http.HandlerFunc) {
	s.mux.HandleFunc(pattern, f)
	s.rows[pattern] = &operation{role: Anybody}
}

func (s *Service) document(w http.ResponseWriter, media string, make func() ([]byte, error)) {
	b, err := make()
	if err != nil {
		s.problem(context.Background(), "openapi", err).Write(w)
		return
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(b) // the reader may be gone
}

// older returns the document in OpenAPI 3.0.
func (s *Service) older() ([]byte, error) {
	b, err := s.huma.OpenAPI().Downgrade()
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(b, &document); err != nil {
		return nil, err
	}
	downgrade(document)
	withoutMutualTLS(document)
	return json.Marshal(document)
}

// withoutMutualTLS takes the scheme mutualTLS away, which OpenAPI 3.0 does not have.
func withoutMutualTLS(document any) {
	d := document.(map[string]any)
	delete(d["components"].(map[string]any)["securitySchemes"].(map[string]any), "certificate")
	for _, item := range d["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			if o, is := o.(map[string]any); is {
				o["security"] = slices.DeleteFunc(o["security"].([]any), func(v any) bool { _, is := v.(map[string]any)["certificate"]; return is })
			}
		}
	}
}

// downgrade writes what may be of a type or null as OpenAPI 3.0 does, which has no type
// null, and references without what stands beside them in 3.1.
func downgrade(v any) {
	switch v := v.(type) {
	case []any:
		for _, each := range v {
			downgrade(each)
		}
	case map[string]any:
		if of, is := v["anyOf"].([]any); is && len(of) == 2 && reflect.DeepEqual(of[1], map[string]any{"type": "null"}) {
			delete(v, "anyOf")
			v["type"], v["allOf"], v["nullable"] = "object", of[:1], true // a reference is to an object
		}
		if _, is := v["$ref"].(string); is {
			maps.DeleteFunc(v, func(name string, _ any) bool { return name != "$ref" })
		}
		for _, each := range v {
			downgrade(each)
		}
	}
}
