package s3

import (
	"testing"
	"time"
)

// TestPublishedSignatures: the examples of "Signature Calculations for the Authorization Header", as far as the headers
// that are signed are those of this client, have the signatures that Amazon has published.
func TestPublishedSignatures(t *testing.T) {
	t.Parallel()
	credentials, err := NewCredentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSigner(credentials, "us-east-1")
	for _, day := range []int{23, 24} { // the key is that of the day
		s.at(time.Date(2013, 5, day, 0, 0, 0, 0, time.UTC))
	}
	for query, signature := range map[string]string{
		"lifecycle=":          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		"max-keys=2&prefix=J": "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
	} {
		want := "X-Amz-Content-Sha256: " + emptyHash + "\r\nX-Amz-Date: 20130524T000000Z\r\n" +
			"Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + signature + "\r\n"
		if got := s.appendHeaders(nil, "GET", "examplebucket.s3.amazonaws.com", []byte("/"), []byte(query), emptyHash); string(got) != want {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// TestHosts: where a store is, by the style of its URLs.
func TestHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url                       string
		host, path, address, name string
	}{
		{"https://s3.example.com:9000/bench", "s3.example.com:9000", "/bench/", "s3.example.com:9000", "s3.example.com"},
		{"https://s3.example.com/bench?path_style=false", "bench.s3.example.com", "/", "bench.s3.example.com:443", "bench.s3.example.com"},
		{"https://s3.example.com:9000/bench?path_style=false", "bench.s3.example.com:9000", "/", "bench.s3.example.com:9000", "bench.s3.example.com"},
		{"https://[::1]:9000/bench", "[::1]:9000", "/bench/", "[::1]:9000", "::1"},
	} {
		l, err := ParseLocation(test.url)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewStore(Config{Location: l})
		if err != nil {
			t.Fatal(err)
		}
		if s.host != test.host || s.path != test.path || s.address != test.address || s.tls.ServerName != test.name {
			t.Errorf("%s: %s %s %s %s", test.url, s.host, s.path, s.address, s.tls.ServerName)
		}
	}
}
