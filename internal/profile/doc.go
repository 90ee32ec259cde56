// Package profile reads and changes the file of profiles: the servers that the command line
// knows by a name, each with its own credentials.
//
// [Read] checks the whole file strictly. A file that names credentials must be readable by its
// owner only, since whoever writes it chooses a command that runs, and where a secret is sent.
// [Change] reads, changes and replaces the file under a lock, so that two commands lose nothing;
// comments stay.
package profile
