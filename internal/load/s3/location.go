package s3

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// A Location is a part of a bucket: all objects whose keys begin with a prefix and a slash.
type Location struct {
	Endpoint string // such as https://s3.example.com:9000, without a slash at its end
	Bucket   string
	Prefix   string // without a slash at either end; empty: the whole bucket

	// HostStyle says that the bucket is the first part of the name of the host and not in the path. Where a store does
	// not know that style it takes the first part of the prefix for the bucket: so it belongs to the location, which
	// confines what is done.
	HostStyle bool
}

const hostStyle = "path_style=false" // the query of a URL

// URL returns the location as ParseLocation reads it.
func (l Location) URL() string {
	text := strings.TrimSuffix(l.Endpoint+(&url.URL{Path: "/" + l.Bucket + "/" + l.Prefix}).EscapedPath(), "/")
	if l.HostStyle {
		text += "?" + hostStyle
	}
	return text
}

var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)

// ParseLocation reads a URL of the form https://HOST/BUCKET or https://HOST/BUCKET/PREFIX, with ?path_style=false or
// without.
func ParseLocation(text string) (l Location, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return l, errors.New("not a URL") // its error may quote a password
	case u.User != nil:
		return l, errors.New("has a user or a password: credentials belong into the environment")
	case u.RawQuery != "" && u.RawQuery != hostStyle || u.Fragment != "":
		return l, errors.New("has a query or a fragment")
	}
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	l = Location{Bucket: bucket, Prefix: strings.Trim(prefix, "/"), HostStyle: u.RawQuery == hostStyle}
	u.Path, u.RawPath, u.RawQuery = "", "", ""
	if l.Endpoint, err = ParseEndpoint(u.String()); err != nil {
		return l, err
	}
	if err := CheckBucket(bucket); err != nil {
		return l, err
	}
	if l.Prefix != "" && path.Clean("/"+l.Prefix) != "/"+l.Prefix {
		return l, fmt.Errorf("the prefix %q has .. or . or nothing as a part", l.Prefix)
	}
	return l, nil
}

// ParseEndpoint reads https://HOST, http://HOST or either with a port, and returns it in its normal form.
func ParseEndpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("want https://HOST or http://HOST, with a port or without")
	}
	host := strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" && port != defaultPort(u.Scheme) {
		return u.Scheme + "://" + net.JoinHostPort(host, port), nil
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host, nil
}

// CheckBucket returns an error if a name cannot be that of a bucket.
func CheckBucket(name string) error {
	if !bucketPattern.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("the bucket is %q; want 3 to 63 lower-case letters, digits, '.', '_' and '-', a letter or digit at both ends", name)
	}
	return nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}
