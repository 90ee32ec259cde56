// Package generated uses the API through a client that another tool has made of its
// document (J4). It has tests only, with the tag generated, which `make verify` sets: they
// download the tool and build what it makes, which takes a minute.
package generated
