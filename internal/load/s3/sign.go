package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"time"
)

const (
	algorithm   = "AWS4-HMAC-SHA256"
	unsigned    = "UNSIGNED-PAYLOAD"
	emptyHash   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of no content
	stampFormat = "20060102T150405Z"
)

// A signer signs requests of one region, by "Authenticating Requests: Using the Authorization Header
// (AWS Signature Version 4)". It is used by one goroutine, and allocates once a day.
type signer struct {
	credentials Credentials
	region      string

	second int64  // of stamp
	stamp  []byte // the time of the request
	day    string // of key
	scope  []byte
	key    hash.Hash // keyed for the day

	digest    hash.Hash
	canonical []byte
	sum, hex  []byte
}

func newSigner(c Credentials, region string) *signer {
	return &signer{credentials: c, region: region, second: -1, digest: sha256.New(), sum: make([]byte, 0, sha256.Size), hex: make([]byte, 2*sha256.Size)}
}

// at sets the time of the requests that follow.
func (s *signer) at(now time.Time) {
	if now.Unix() == s.second {
		return
	}
	s.second = now.Unix()
	s.stamp = now.UTC().AppendFormat(s.stamp[:0], stampFormat)
	if day := string(s.stamp[:8]); day != s.day {
		s.day = day
		key := []byte("AWS4" + s.credentials.open().secret)
		for _, part := range []string{day, s.region, "s3", "aws4_request"} {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(part))
			key = h.Sum(nil)
		}
		s.key = hmac.New(sha256.New, key)
		s.scope = append(s.scope[:0], day+"/"+s.region+"/s3/aws4_request"...)
	}
}

// appendHeaders appends the headers that sign a request: of a path and a query that are encoded and in
// order, and of a payload with that hash. The header Host is written by the caller.
func (s *signer) appendHeaders(b []byte, method, host string, path, query []byte, payload string) []byte {
	own := s.credentials.open()
	signed := "host;x-amz-content-sha256;x-amz-date"
	c := append(append(s.canonical[:0], method...), '\n')
	c = append(append(c, path...), '\n')
	c = append(append(c, query...), '\n')
	c = append(append(append(c, "host:"...), host...), '\n')
	c = append(append(append(c, "x-amz-content-sha256:"...), payload...), '\n')
	c = append(append(append(c, "x-amz-date:"...), s.stamp...), '\n')
	if own.token != "" {
		signed = "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
		c = append(append(append(c, "x-amz-security-token:"...), own.token...), '\n')
	}
	c = append(append(append(append(c, '\n'), signed...), '\n'), payload...)
	hashed := s.sumHex(s.digest, c)
	c = append(append(c[:0], algorithm...), '\n')
	c = append(append(c, s.stamp...), '\n')
	c = append(append(c, s.scope...), '\n')
	c = append(c, hashed...)
	s.canonical = c

	b = append(append(append(b, "X-Amz-Content-Sha256: "...), payload...), "\r\nX-Amz-Date: "...)
	b = append(append(b, s.stamp...), "\r\n"...)
	if own.token != "" {
		b = append(append(append(b, "X-Amz-Security-Token: "...), own.token...), "\r\n"...)
	}
	b = append(append(append(b, "Authorization: "+algorithm+" Credential="...), own.id...), '/')
	b = append(append(append(append(b, s.scope...), ", SignedHeaders="...), signed...), ", Signature="...)
	return append(append(b, s.sumHex(s.key, c)...), "\r\n"...)
}

// sumHex returns the sum of b in hexadecimal digits, valid until the next call.
func (s *signer) sumHex(h hash.Hash, b []byte) []byte {
	h.Reset()
	h.Write(b)
	s.sum = h.Sum(s.sum[:0])
	hex.Encode(s.hex, s.sum)
	return s.hex
}

const hexDigits = "0123456789ABCDEF"

// appendEscaped appends a text as paths and queries have it: all but unreserved characters are encoded.
func appendEscaped(b []byte, text string, slash bool) []byte {
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/' && slash:
			b = append(b, c)
		default:
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}
