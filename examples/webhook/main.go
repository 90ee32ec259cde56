// Command webhook is a receiver of webhooks: it prints the events whose signature is right.
//
//	pawl webhook create alerts http://127.0.0.1:8080/ --out secret
//	go run . secret
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// tolerance is how old a message may be, so that nobody sends one again much later.
const tolerance = 5 * time.Minute

// verify returns an error unless one of the signatures of a message is that of the secret.
func verify(secret string, h http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > tolerance {
		return errors.New("the message is too old")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("webhook-id"), at, body)
	want := mac.Sum(nil)
	for _, signature := range strings.Fields(h.Get("webhook-signature")) {
		got, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1,"))
		if err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return errors.New("no signature is right")
}

func main() {
	secret, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address := "127.0.0.1:8080"
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	err = http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = verify(strings.TrimSpace(string(secret)), r.Header, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Println(r.Header.Get("webhook-id"), string(body)) // drop an id that you have seen
		w.WriteHeader(http.StatusNoContent)
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
