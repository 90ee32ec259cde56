// Package link is what a worker says to an engine: what it has finished, how much it can
// take on, and that it lives.
package link
