// Package files reads the files that a command line names. Reads are bounded, never wait for a
// pipe without a writer, and return errors that quote the path for a shell.
//
// [Read] and [Open] refuse anything but a regular file before opening it, unless the caller
// has it open already. [FolderOf] and [Folder] return the absolute path of a folder, which is
// stored as text. [Replace] writes a file, whole or not at all.
//
// [ReadWorkflow] reads and checks a workflow, [ReadPrograms] and [ParsePrograms] a file of
// services, and [Check] one of either kind. A file of the other kind is an error that names
// the command for it. [OpenChild] reads the file of a child workflow by its path relative to
// that of its parent. [ReadJobs] reads a list of jobs from stdin.
//
// Errors are pawl.Errors: NotFound, Refused if permissions are missing, otherwise Invalid; see
// [KindOf]. Mistakes in a workflow or a service file are document.Problems.
package files
