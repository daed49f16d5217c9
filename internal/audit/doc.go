// Package audit writes and checks the record of every call: a chain of JSON
// lines in which each line names the hash of the one before it, with signed
// checkpoints beside it. docs/audit.md describes the format for other readers.
//
// The order of the files is that of a record's life: record.go (what a line
// holds), canonical.go and mask.go (what is kept of arguments), log.go and
// open.go (the writer), append.go (no begin, no call; full disks), rotate.go
// (rotation and retention), checkpoint.go and note.go (signatures, anchors),
// read.go and verify.go (the checker).
//
// What it proves: whoever edits, removes, reorders, inserts or cuts lines
// without the key is found out. A compromised writer, which holds the key, is
// found out only up to the last anchor that was taken off the machine.
package audit
