// Package files reads the files that a command line names: bounded, without waiting for a
// pipe that nobody writes to, and with errors that name the path as a shell reads it.
//
// [Read] and [Open] refuse what is no regular file before it is opened, but for what the
// caller has open already. [OpenChild] reads the file of a child workflow by its path
// from that of its parent. [FolderOf] and [Textual] check the folder of a file, which is
// stored as text.
//
// Errors are pawl.Errors: NotFound, Refused where permissions are missing, else Invalid;
// see [KindOf].
package files
