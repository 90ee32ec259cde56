package s3test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/load/s3"
)

// Client returns a client of the bucket with a URL.
func Client(t testing.TB, url string, change ...func(*s3.Config)) *s3.Client {
	t.Helper()
	location, err := s3.ParseLocation(url)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := s3.NewCredentials(ID, Secret, "")
	if err != nil {
		t.Fatal(err)
	}
	config := s3.Config{Location: location, Region: "us-east-1", Credentials: credentials, Timeout: 10 * time.Second, PartSize: 5 << 20}
	for _, f := range change {
		f(&config)
	}
	store, err := s3.NewStore(config)
	if err != nil {
		t.Fatal(err)
	}
	c := store.Client()
	t.Cleanup(c.Close)
	return c
}

// Put uploads an object.
func Put(t testing.TB, c *s3.Client, key, text string) {
	t.Helper()
	if err := c.Put(key, int64(len(text)), func(at int64, n int) []byte { return []byte(text[at : at+int64(n)]) }); err != nil {
		t.Fatal(err)
	}
}

// Keys returns the keys of all objects, in order.
func Keys(t testing.TB, c *s3.Client) (all []string) {
	t.Helper()
	for next := ""; ; {
		p, err := c.List("", next, false, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, p.Keys...); p.Next == "" {
			return all
		}
		next = p.Next
	}
}

// Uploads returns the uploads in parts that are neither complete nor aborted.
func Uploads(t testing.TB, c *s3.Client) []s3.Upload {
	t.Helper()
	all, _, err := c.Uploads("", s3.Upload{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
