// Package oidctest has an OpenID Connect provider for tests.
package oidctest

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An Issuer is an identity provider that signs everybody in at once, to the client "pawl" with
// the secret "hush".
type Issuer struct {
	*httptest.Server
	t      *testing.T
	Claims map[string]any  // of who signs in
	Refuse string          // the error of the authorization
	Nonce  string          // put into the ID token instead of the right one
	Sign   *rsa.PrivateKey // signs ID tokens; at first the key that the issuer names

	asked url.Values // of the last authorization
}

// New starts an issuer.
func New(t *testing.T) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{t: t, Sign: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *Issuer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	i.asked = r.URL.Query()
	back := url.Values{"state": {i.asked.Get("state")}}
	if i.Refuse != "" {
		back.Set("error", i.Refuse)
	} else {
		back.Set("code", "the-code")
	}
	http.Redirect(w, r, i.asked.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token checks the client and its proof (RFC 7636, section 4.6).
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	id, secret, _ := r.BasicAuth()
	if r.FormValue("code") != "the-code" || id != "pawl" || secret != "hush" || base64.RawURLEncoding.EncodeToString(proof[:]) != i.asked.Get("code_challenge") || i.asked.Get("code_challenge_method") != "S256" {
		w.WriteHeader(http.StatusBadRequest)
		i.answer(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{"iss": i.URL, "aud": "pawl", "sub": "1", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
		"nonce": cmp.Or(i.Nonce, i.asked.Get("nonce"))}
	for name, value := range i.Claims {
		claims[name] = value
	}
	payload, err := json.Marshal(claims)
	i.must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.Sign, KeyID: "1"}}, nil)
	i.must(err)
	signed, err := signer.Sign(payload)
	i.must(err)
	raw, err := signed.CompactSerialize()
	i.must(err)
	i.answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": raw})
}

func (i *Issuer) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Error(err)
		panic(http.ErrAbortHandler)
	}
}
