package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// The credentials that are allowed: one key, and another one that wants the token of its session.
const (
	id, secret       = "AKIATESTS", "s3cr3t/of+tests"
	sessionID, token = "ASIATESTS", "t0ken/of+a+session=="
	maxSkew          = 15 * time.Minute
)

// signed lets those requests pass that have a valid signature.
func signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, err := verify(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		type refusal struct {
			XMLName        xml.Name `xml:"Error"`
			Code           string
			Message        string
			AWSAccessKeyId string
		}
		// Stores are known to quote what they were sent, secrets included.
		b, _ := xml.Marshal(refusal{Code: code, Message: err.Error() + " " + r.Header.Get("Authorization") + " " + r.Header.Get("X-Amz-Security-Token"), AWSAccessKeyId: id}) // texts only
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(b)
	})
}

// verify signs a request again, by the signer of Amazon's SDK, and compares the results.
func verify(r *http.Request) (code string, err error) {
	authorization := r.Header.Get("Authorization")
	var credential, names string
	for _, part := range strings.Split(strings.TrimPrefix(authorization, "AWS4-HMAC-SHA256 "), ", ") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "Credential":
			credential = value
		case "SignedHeaders":
			names = value
		}
	}
	scope := strings.Split(credential, "/")
	if len(scope) != 5 || scope[0] != id && scope[0] != sessionID {
		return "InvalidAccessKeyId", fmt.Errorf("there is no such key")
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > maxSkew {
		return "RequestTimeTooSkewed", fmt.Errorf("the clocks differ")
	}
	if err := verifyPayload(r); err != nil {
		return "XAmzContentSHA256Mismatch", err
	}
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return "InvalidRequest", err
	}
	for _, name := range strings.Split(names, ";") {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	credentials := aws.Credentials{AccessKeyID: scope[0], SecretAccessKey: secret}
	if scope[0] == sessionID {
		credentials.SessionToken = token
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err := signer.SignHTTP(r.Context(), credentials, again, r.Header.Get("X-Amz-Content-Sha256"), "s3", scope[2], at); err != nil {
		return "InvalidRequest", err
	}
	if want := again.Header.Get("Authorization"); subtle.ConstantTimeCompare([]byte(want), []byte(authorization)) == 0 {
		return "SignatureDoesNotMatch", fmt.Errorf("the signature is %s; want %s", authorization, want)
	}
	return "", nil
}

// verifyPayload compares a body with what the request says of it.
func verifyPayload(r *http.Request) error {
	want := r.Header.Get("X-Amz-Content-Sha256")
	if want == "UNSIGNED-PAYLOAD" {
		return nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("the content has another hash")
	}
	return nil
}
