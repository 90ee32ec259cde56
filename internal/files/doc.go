// Package files reads the files that a command line names: bounded, without waiting for a
// pipe that nothing writes to, and with errors that name the path as a shell reads it.
//
// [Read] and [Open] refuse what is no regular file before it is opened, except what the
// caller has open already. [FolderOf] and [Folder] return the absolute path of a folder,
// which is stored as text. [Replace] writes a file, whole or not at all.
//
// [ReadWorkflow] reads and checks a workflow, [ReadPrograms] and [ParsePrograms] a file of
// services, and [Check] one of either kind. A file of the other kind is an error that
// names the command for it. [OpenChild] reads the file of a child workflow by its path
// from that of its parent. [ReadJobs] reads a list of jobs from stdin.
//
// Errors are pawl.Errors: NotFound, Refused where permissions are missing, else Invalid;
// see [KindOf]. Mistakes in a workflow or a file of services are document.Problems.
package files
