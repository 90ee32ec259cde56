// Package redocly holds the documents of the API against the rules of a tool that is not
// ours (J4). It has tests only. They need npx, which they install with apt-get if they may,
// and download the tool from the registry of npm.
package redocly
