// Package results reads a folder of load runs: the results of those that have ended, and the journals
// of those that are on or whose controllers have died (L7, L11).
//
// A [Folder] is asked again for each request, and reads anew only what has changed. A run is known by
// the name of its result. Nothing outside of the folder is read: names are single names, and symbolic
// links that lead out of it are not followed. What is no result and no journal is ignored; a result that
// cannot be read is a run that is damaged, with the reason.
package results
