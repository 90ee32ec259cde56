package main

import (
	neturl "net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/agent"
	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

const maxCredentials = 1 << 20 // bytes of a file of credentials

// stores reads what --s3 says, and checks that there are credentials.
func (a *app) stores(texts []string) (all []agent.Root, err error) {
	for _, text := range texts {
		r, err := parseStore(text)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) > 0 {
		if _, _, err := a.storeAccess(); err != nil {
			return nil, usage("", "--s3: %s", err)
		}
	}
	return all, nil
}

// parseStore reads an --s3: the URL of a part of a bucket, with limits and the style of its requests as its query.
func parseStore(text string) (r agent.Root, err error) {
	const form = "want https://HOST/BUCKET/PREFIX?bytes=SIZE&objects=NUMBER, the prefix and the limits if there are any"
	place, query, _ := strings.Cut(text, "?")
	l, err := s3.ParseLocation(place)
	if err != nil {
		return r, usage("", "--s3 %q: %s; %s", withoutUser(text), err, form)
	}
	limits, err := neturl.ParseQuery(query)
	if err != nil {
		return r, usage("", "--s3 %q: %s; %s", withoutUser(text), err, form)
	}
	if values := limits["path_style"]; len(values) > 0 {
		switch delete(limits, "path_style"); values[len(values)-1] {
		case "true":
		case "false":
			l.HostStyle = true
		default:
			return r, usage("", "--s3 %q: path_style=%s; want true or false", withoutUser(text), values[len(values)-1])
		}
	}
	r.Path = l.URL()
	for key, values := range limits {
		value := values[len(values)-1]
		switch n, ok := spec.ParseSize(value); {
		case key == "bytes" && ok && n > 0:
			r.Bytes = uint64(n)
		case key == "objects":
			if r.Files, err = strconv.ParseUint(value, 10, 63); err == nil && r.Files > 0 {
				continue
			}
			fallthrough
		default:
			return r, usage("leave a limit out if there is none", "--s3 %q: the limit %s=%s; want bytes=SIZE and objects=NUMBER, each 1 or more", withoutUser(text), key, value)
		}
	}
	return r, nil
}

// withoutUser returns a URL without a user and a password.
func withoutUser(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if at := strings.LastIndex(rest, "@"); ok && at >= 0 { // a password may have a slash and an @ as well
		return scheme + "://...@" + rest[at+1:]
	}
	return text
}

// storeAccess returns the credentials and the certificates of the environment, under the names of the AWS tools.
func (a *app) storeAccess() (c s3.Credentials, ca []byte, err error) {
	if name := a.getenv("AWS_CA_BUNDLE"); name != "" {
		if ca, err = files.Read(name, maxCA); err != nil {
			return c, nil, err
		}
	}
	if id := a.getenv("AWS_ACCESS_KEY_ID"); id != "" {
		c, err = s3.NewCredentials(id, a.getenv("AWS_SECRET_ACCESS_KEY"), a.getenv("AWS_SESSION_TOKEN"))
		return c, ca, err
	}
	name, profile := a.getenv("AWS_SHARED_CREDENTIALS_FILE"), a.getenv("AWS_PROFILE")
	if name == "" {
		name = filepath.Join(a.getenv("HOME"), ".aws", "credentials")
	}
	if profile == "" {
		profile = "default"
	}
	text, err := files.Read(name, maxCredentials)
	if pawl.KindOf(err) == pawl.NotFound {
		return c, nil, s3.ErrNoCredentials
	}
	if err == nil {
		c, err = s3.SharedCredentials(string(text), profile)
	}
	return c, ca, err
}

// storeJob returns the job of a local agent on an object store.
func (a *app) storeJob(job workload.Job, test *spec.Test, texts []string) (workload.Job, error) {
	all, err := a.stores(texts)
	if err != nil {
		return job, err
	}
	r := agent.StoreOf(all, test)
	if r == nil {
		return job, usage("name it with --s3 https://HOST/BUCKET/PREFIX", "the load uses an object store, and no --s3 allows it")
	}
	job.Root, job.LimitBytes, job.LimitFiles, job.Access = r.Path, r.Bytes, r.Files, a.storeAccess
	return job, nil
}
