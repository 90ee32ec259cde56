package link

import "github.com/pawl-dev/pawl"

// A Batch is a request for many jobs under one request id (J8).
type Batch struct {
	Workspace string      // of the request id
	Endpoint  string      // for who reads the table of request ids
	Change    pawl.Change // has the request id
	Asked     string      // the same for the same request, and for no other

	// Response returns the response to store, given what became of each submission. It is called
	// within the commit, again if that is tried again, and perhaps when the caller is gone.
	Response func([]pawl.Submitted) []byte
}
