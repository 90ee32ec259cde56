// Package crew keeps the members of a crew: coding agents that each work on a git branch of
// their own. Its truth is files, in the folder .worker-state of the repository; there is no
// server and no database (C2).
//
// # Files
//
// A [Folder] has, for each member, its state (ID.json), the lock under which the state changes
// (ID.lock), its last heartbeat (ID.heartbeat) and its history (history/ID.jsonl), a trail of
// package audit whose entities are mb_ID. Messages are in messages/, a file for each sender.
//
// # Changes
//
// [Folder.Change] is the only way to change a member. Under the member's lock it reads the state,
// lets the caller decide, asks the table lifecycle.Member, appends the row of the history, and
// replaces the state. The row has the whole new state, so that a change whose process died
// between the two is completed by whoever comes next, and a state that anybody has edited is
// seen ([TamperedError]). The version of a state is the number of its row.
//
// A heartbeat is no change: it replaces a file of its own and does not raise the version (C4).
package crew
