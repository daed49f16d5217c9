package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds of one walk. What they cut off is said, or comes with the next
// page.
const (
	maxEntries = 50_000           // read of one directory, or of all that lie above each other,
	minEntries = 1000             // but so many of each
	maxDepth   = 64               // directories below each other
	maxWalk    = 10 * time.Second // then the next page goes on
)

// Walk says what to walk over.
type Walk struct {
	Dir     string // where to begin; empty is the workspace
	Depth   int    // 1 is the directory's own entries; 0 is as deep as it goes
	Glob    Glob   // which entries to visit; directories are entered all the same
	Ignored bool   // also what ignore files exclude, and .git
	From    string // the first path to visit: a later page begins here
}

// errStop ends a walk without an error.
var errStop = errors.New("stop")

// walker is one walk at work.
type walker struct {
	Walk
	w     *Workspace
	ctx   context.Context
	visit func(name string, d fs.DirEntry) error
	from  []string
	begun time.Time // at the first entry that is not skipped
	next  string    // where a next walk goes on, if this one ended early
	gaps  *gaps
	held  int // entries of the directories from the first down to where it is
}

// walk visits entries in the order of their names, a directory before what is
// in it. Symbolic links are visited, never followed. It returns where to go on
// when visit or a bound ended it early, and adds to missing what it did not see.
func (w *Workspace) walk(ctx context.Context, options Walk, missing *gaps,
	visit func(string, fs.DirEntry) error) (next string, err error) {
	if options.Dir == "" {
		options.Dir = "."
	}
	if err := w.checkPath(options.Dir); err != nil {
		return "", err
	}
	start, err := w.resolve(options.Dir)
	if err != nil {
		return "", err
	}
	info, err := w.root.Lstat(start)
	if err != nil {
		return "", explain(options.Dir, err)
	}
	k := &walker{Walk: options, w: w, ctx: ctx, visit: visit, gaps: missing}
	if options.From != "" {
		k.from = strings.Split(options.From, "/")
	}
	var rules inForce
	if start != "." && !options.Ignored {
		rules = rules.in(w, ".")
		for i, c := range start {
			if c == '/' {
				rules = rules.in(w, start[:i])
			}
		}
	}
	if info.IsDir() {
		err = k.dir(start, rules, 1)
	} else {
		err = k.see(start, fs.FileInfoToDirEntry(info))
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	return k.next, err
}

func (k *walker) dir(dir string, rules inForce, depth int) error {
	entries, err := k.entries(dir)
	if err != nil {
		if _, gone := k.w.root.Lstat(dir); gone == nil {
			k.gaps.add(gapUnread, dir)
		}
		return nil
	}
	k.held += len(entries)
	defer func() { k.held -= len(entries) }()
	if !k.Ignored {
		rules = rules.in(k.w, dir)
	}
	for _, d := range entries {
		name := path.Join(dir, d.Name())
		order := slices.Compare(strings.Split(name, "/"), k.from)
		if order < 0 && !strings.HasPrefix(k.From, name+"/") {
			continue
		}
		if order >= 0 {
			if err := k.due(name); err != nil {
				return err
			}
		}
		if !k.Ignored && (d.Name() == ".git" || rules.ignored(name, d.IsDir())) {
			continue
		}
		if order >= 0 {
			if err := k.see(name, d); err != nil {
				return err
			}
		}
		switch deeper := d.IsDir() && (k.Depth == 0 || depth < k.Depth); {
		case deeper && depth == maxDepth:
			k.gaps.add(gapDeep, name)
		case deeper:
			if err := k.dir(name, rules, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// due ends the walk before name when nobody waits for it any more, or when it
// has taken its time: ignore files can make entries slow to pass over.
func (k *walker) due(name string) error {
	switch {
	case k.ctx.Err() != nil:
		return k.ctx.Err()
	case k.begun.IsZero():
		k.begun = time.Now() // so every page passes at least one entry
	case time.Since(k.begun) > maxWalk:
		k.next = name
		return errStop
	}
	return nil
}

// see visits one entry, if it is meant, or ends the walk here.
func (k *walker) see(name string, d fs.DirEntry) (err error) {
	if k.Glob.Match(name) {
		err = k.visit(name, d)
	}
	if err != nil {
		k.next = name
	}
	return err
}

// entries reads one directory, sorted. A name that is not UTF-8 cannot be said
// in JSON, so no tool could use it.
func (k *walker) entries(dir string) ([]fs.DirEntry, error) {
	f, err := k.w.Dir(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(max(minEntries, maxEntries-k.held))
	if err != nil && err != io.EOF {
		return nil, err
	}
	if more, _ := f.ReadDir(1); len(more) > 0 {
		k.gaps.add(gapLarge, dir)
	}
	entries = slices.DeleteFunc(entries, func(d fs.DirEntry) bool {
		bad := !utf8.ValidString(d.Name())
		if bad {
			k.gaps.add(gapName, path.Join(dir, d.Name()))
		}
		return bad
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Entry is one entry of a directory.
type Entry struct {
	Path string `json:"path"`
	Type string `json:"type" jsonschema:"file, directory, symlink or other"`
	Size int64  `json:"size" jsonschema:"bytes; 0 for what is not a file"`
}

// Listing is one page of a walk's entries. Notices say what is missing on it.
type Listing struct {
	Entries []Entry
	Next    string // From of the next page; empty at the end
	Notices []string
}

// List lists up to limit entries.
func (w *Workspace) List(ctx context.Context, options Walk, limit int) (l Listing, err error) {
	l.Entries = []Entry{}
	var missing gaps
	l.Next, err = w.walk(ctx, options, &missing, func(name string, d fs.DirEntry) error {
		if len(l.Entries) == limit {
			return errStop
		}
		e := Entry{Path: name, Type: "other"}
		switch info, err := w.root.Lstat(name); {
		case err != nil:
			return nil // gone meanwhile
		case info.Mode().IsRegular():
			e.Type, e.Size = "file", info.Size()
		case info.IsDir():
			e.Type = "directory"
		case info.Mode()&fs.ModeSymlink != 0:
			e.Type = "symlink"
		}
		l.Entries = append(l.Entries, e)
		return nil
	})
	l.Notices = missing.Notices()
	return l, err
}
