package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/sallyport-dev/sallyport/internal/diff"
	"github.com/sallyport-dev/sallyport/sandboxd/command"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// started tells the owner's list of a command that ctx's call has started.
func (s *Set) started(ctx context.Context, c *command.Command) {
	if s.cfg.Started != nil {
		s.cfg.Started(ctx, c)
	}
}

// Writes reports whether a tool replaces a file, so that the owner's approval
// also binds the file as it is.
func Writes(name string) bool { return name == "write_file" || name == "edit_file" }

// Change returns the digest of the file that a call of a writing tool would
// replace, as it is now, and a diff of what the call would do. It writes
// nothing. Whether the call's arguments are right is for the tool to say.
func (s *Set) Change(name string, arguments json.RawMessage) (digest, preview string, err error) {
	var in writeIn
	var edit editIn
	if name == "edit_file" {
		err = read(arguments, editProperties, &edit)
		in.Path = edit.Path
	} else {
		err = read(arguments, writeProperties, &in)
	}
	if err != nil {
		return "", "", err
	}
	path, err := s.files.Target(in.Path) // what is written, which the links on the way decide
	if err != nil {
		return "", "", err
	}
	digest, old, err := s.files.Digest(path)
	if err != nil {
		return "", "", err
	}
	var edits []diff.Edit
	switch {
	case name == "edit_file":
		if edits, err = files.Replace(old, edit.Old, edit.New, edit.ReplaceAll); err != nil {
			return "", "", fmt.Errorf("%s: %w", files.Name(path), err)
		}
	case in.Append:
		edits = []diff.Edit{{At: len(old), New: in.Content}}
	default:
		edits = []diff.Edit{whole(old, in.Content)}
	}
	preview = diff.Unified(files.Name(path), old, edits)
	if filepath.Clean(in.Path) != path {
		preview = fmt.Sprintf("This path leads to %s through symbolic links.\n%s", files.Name(path), preview)
	}
	return path + " " + digest, preview, nil
}

// whole is the change from old to text as one edit, without the bytes that both
// begin and end with.
func whole(old, text string) diff.Edit {
	start, end := 0, 0
	for start < len(old) && start < len(text) && old[start] == text[start] {
		start++
	}
	for end < len(old)-start && end < len(text)-start && old[len(old)-1-end] == text[len(text)-1-end] {
		end++
	}
	return diff.Edit{At: start, Len: len(old) - start - end, New: text[start : len(text)-end]}
}
