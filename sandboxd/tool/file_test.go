package tool_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

type readResult struct {
	Content    string
	Size       int64
	TotalLines int `json:"total_lines"`
}

type writeResult struct {
	Path         string
	BytesWritten int `json:"bytes_written"`
	Created      bool
}

// badPaths are refused by every tool that takes a path, and none of them may
// reach the file outside.
func badPaths(b *box) map[string]string {
	out := b.outside
	link := func(name, target string) string {
		must(b.t, os.Symlink(target, b.path(name)))
		return name
	}
	must(b.t, os.Mkdir(b.path("dir"), 0o755))
	return map[string]string{
		"empty":                   "",
		"dot dot":                 "..",
		"dot dot slash":           "../",
		"to the parent":           "../work-evil/secret",
		"through a directory":     "dir/../../work-evil/secret",
		"absolute":                filepath.Join(out, "secret"),
		"root":                    "/",
		"sibling with prefix":     b.dir + "-evil/secret",
		"NUL":                     "a\x00b",
		"long name":               strings.Repeat("n", 300),
		"long path":               strings.Repeat("d/", 2049) + "f",
		"link to a file":          link("l1", filepath.Join(out, "secret")),
		"relative link":           link("l2", "../work-evil/secret"),
		"link chain":              link("l3", "l2"),
		"linked directory":        link("l4", out) + "/secret",
		"linked dir, new file":    link("l5", "../work-evil") + "/new.txt",
		"linked dir, new subdir":  "l5/a/b/new.txt",
		"dangling link":           link("l6", "../work-evil/missing"),
		"link with slash":         link("l7", "../work-evil/") + "/",
		"link to /proc":           link("l8", "/proc/self/root"),
		"below /proc":             "l8/etc/passwd",
		"link loop":               link("l9", "l9"),
		"directory":               "dir",
		"directory with slash":    "dir/",
		"workspace itself":        ".",
		"workspace, the long way": "dir/..",
		"absolute workspace":      b.dir,
	}
}

func TestBadPaths(t *testing.T) {
	b := newBox(t)
	for name, path := range badPaths(b) {
		t.Run(name, func(t *testing.T) {
			for _, words := range []string{
				b.refused("read_file", args{"path": path}),
				b.refused("write_file", args{"path": path, "content": "x"}),
				b.refused("write_file", args{"path": path, "content": "x", "append": true}),
			} {
				if strings.Contains(words, "outside\n") || len(words) < 20 {
					t.Errorf("words: %s", words)
				}
			}
		})
	}
	entries, _ := os.ReadDir(b.outside)
	data, _ := os.ReadFile(filepath.Join(b.outside, "secret"))
	if len(entries) != 1 || string(data) != "outside" {
		t.Errorf("outside was changed: %v %q", entries, data)
	}
	if got := b.temps(); got != nil {
		t.Errorf("temporary files left: %v", got)
	}
}

// An unguarded reader does reach the file that the table's links lead to:
// without this the table would also pass on a machine where it does not exist.
func TestBadPathsUnguarded(t *testing.T) {
	b := newBox(t)
	paths := badPaths(b)
	for _, name := range []string{"to the parent", "through a directory", "link to a file", "relative link", "link chain", "linked directory"} {
		if data, err := os.ReadFile(b.dir + "/" + paths[name]); err != nil || string(data) != "outside" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func TestAbsolutePathInsideIsExplained(t *testing.T) {
	b := newBox(t)
	if words := b.refused("read_file", args{"path": b.path("src/a.go")}); !strings.Contains(words, `"src/a.go"`) {
		t.Errorf("words: %s", words)
	}
}

func TestGoodPaths(t *testing.T) {
	b := newBox(t)
	b.put("dir/sub/a.txt", "hello")
	must(t, os.Symlink("dir/sub", b.path("link")))
	must(t, os.Symlink("link/a.txt", b.path("file-link")))
	must(t, os.Symlink("../sub/./a.txt", b.path("dir/sub/odd")))
	for _, path := range []string{"dir/sub/a.txt", "./dir//sub/a.txt", "dir/../dir/sub/a.txt", "link/a.txt", "file-link", "link/../sub/a.txt", "dir/sub/odd"} {
		var got readResult
		if b.call("read_file", args{"path": path}, &got); got.Content != "hello" {
			t.Errorf("read %s: %+v", path, got)
		}
		var wrote writeResult
		b.call("write_file", args{"path": path, "content": "hello"}, &wrote)
		if wrote.Path != "dir/sub/a.txt" || wrote.Created {
			t.Errorf("write %s: %+v", path, wrote)
		}
	}
	for _, name := range []string{"file-link", "link"} {
		if info, err := os.Lstat(b.path(name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no longer a link: %v, %v", name, info.Mode(), err)
		}
	}
	names := []string{"-rf", "~", "a b", "größe", "gro\u0308ße", "'quoted'", "$(id)", strings.Repeat("n", 255)}
	for _, name := range names {
		b.call("write_file", args{"path": "names/" + name, "content": name}, &writeResult{})
		if b.get("names/"+name) != name {
			t.Errorf("%s: not written", name)
		}
	}
}

func TestDanglingLinkInsideIsWritten(t *testing.T) {
	b := newBox(t)
	must(t, os.Symlink("dir/new.txt", b.path("link")))
	var wrote writeResult
	b.call("write_file", args{"path": "link", "content": "x"}, &wrote)
	if !wrote.Created || wrote.Path != "dir/new.txt" || b.get("dir/new.txt") != "x" {
		t.Errorf("%+v", wrote)
	}
}

func TestSpecialFilesAreRefusedAtOnce(t *testing.T) {
	b := newBox(t)
	must(t, syscall.Mkfifo(b.path("fifo"), 0o666))
	socket, err := net.Listen("unix", b.path("socket"))
	must(t, err)
	defer socket.Close()
	cases := map[string]string{"fifo": "a named pipe", "socket": "a socket"}
	before, times := threads(t), 200
	if os.Getenv("SALLYPORT_SOAK") != "" {
		times = 1000
	}
	for name, want := range cases {
		for i := range times { // each naive open of a FIFO would hold a thread
			words := b.refused("read_file", args{"path": name})
			words += b.refused("write_file", args{"path": name, "content": fmt.Sprint(i)})
			words += b.refused("write_file", args{"path": name, "content": "x", "append": true})
			if strings.Count(words, want) != 3 {
				t.Fatalf("%s: %s", name, words)
			}
		}
		if words := b.refused("read_file", args{"path": name + "/x"}); !strings.Contains(words, "not a directory") {
			t.Errorf("below %s: %s", name, words)
		}
		b.refused("write_file", args{"path": name + "/x", "content": "x"})
	}
	if n := threads(t); n > before+50 {
		t.Errorf("%d threads became %d", before, n)
	}
}

func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(tasks)
}

func TestDeviceIsRefused(t *testing.T) {
	b := &box{t: t, dir: smallDisk(t)}
	b.open(t.TempDir())
	f, err := os.Open(b.path("device")) // /dev/zero
	must(t, err)
	defer f.Close()
	if n, err := f.Read(make([]byte, 10)); n != 10 {
		t.Fatalf("the device cannot be read without the tool either (%v): the test shows nothing", err)
	}
	for _, words := range []string{
		b.refused("read_file", args{"path": "device"}),
		b.refused("write_file", args{"path": "device", "content": "x"}),
	} {
		if !strings.Contains(words, "a device") {
			t.Errorf("words: %s", words)
		}
	}
}

func TestLeasedFileDoesNotHang(t *testing.T) {
	b := newBox(t)
	b.put("leased", "old")
	f, err := os.OpenFile(b.path("leased"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("no lease to test with: %v", err)
	}
	if words := b.refused("read_file", args{"path": "leased"}); !strings.Contains(words, "lease") {
		t.Errorf("words: %s", words)
	}
	b.call("write_file", args{"path": "leased", "content": "new"}, &writeResult{})
	if got := b.get("leased"); got != "new" {
		t.Errorf("content %q", got)
	}
}

func TestHardLinkOutsideIsNotChanged(t *testing.T) {
	b := newBox(t)
	secret := filepath.Join(b.outside, "secret")
	must(t, os.Link(secret, b.path("hard")))
	for _, appending := range []bool{true, false} {
		b.call("write_file", args{"path": "hard", "content": "mine", "append": appending}, &writeResult{})
		if data, _ := os.ReadFile(secret); string(data) != "outside" {
			t.Errorf("append %t: the file outside is now %q", appending, data)
		}
	}
	// A write in place does reach it: that is what is avoided.
	must(t, os.Link(secret, b.path("hard2")))
	must(t, os.WriteFile(b.path("hard2"), []byte("mine"), 0o644))
	if data, _ := os.ReadFile(secret); string(data) != "mine" {
		t.Error("a write in place did not reach the file outside: the test shows nothing")
	}
}

func TestReadSizes(t *testing.T) {
	b := newBox(t)
	const mib = 1 << 20
	for name, content := range map[string]string{
		"empty":    "",
		"letters":  strings.Repeat("a", mib),
		"newlines": strings.Repeat("\n", mib),
		"controls": strings.Repeat("\x01\x02\x1f\x7f", mib/4),
		"markup":   strings.Repeat("<", mib),
		"runes":    strings.Repeat("€", mib/3),
	} {
		b.call("write_file", args{"path": name, "content": content}, &writeResult{})
		var got readResult
		b.call("read_file", args{"path": name}, &got)
		if got.Content != content || got.Size != int64(len(content)) || b.get(name) != content {
			t.Errorf("%s: %d bytes read, size %d", name, len(got.Content), got.Size)
		}
	}
	b.put("large", strings.Repeat("a", mib+1))
	words := b.refused("read_file", args{"path": "large"})
	words += b.refused("write_file", args{"path": "letters", "content": strings.Repeat("b", mib+1)})
	words += b.refused("edit_file", args{"path": "large", "old_text": "a", "new_text": "b"})
	words += b.refused("read_file", args{"path": "large", "limit": 1})
	if strings.Count(words, "1 MiB") != 4 || strings.Count(words, "sed -i") != 2 || !strings.Contains(words, "cut -c") {
		t.Errorf("words: %s", words)
	}
	if b.get("letters") != strings.Repeat("a", mib) {
		t.Error("a refused write changed the file")
	}
	must(t, os.WriteFile(b.path("sparse"), nil, 0o644))
	must(t, os.Truncate(b.path("sparse"), 1<<40))
	b.refused("read_file", args{"path": "sparse"})
	b.refused("write_file", args{"path": "sparse", "content": "x", "append": true})
}

func TestLargeAnswersAreSummarised(t *testing.T) {
	b := newBox(t)
	b.put("small", "some text")
	b.put("large", strings.Repeat("a line of text\n", 10_000))
	if got := text(b.raw("read_file", args{"path": "small"})); !strings.Contains(got, "some text") {
		t.Errorf("small: %s", got)
	}
	got := text(b.raw("read_file", args{"path": "large"}))
	if len(got) > 64<<10 || len(got) < 50<<10 || strings.Count(got, "a line of text\n") != 4300 || !strings.HasSuffix(got, "[… lines 1 to 4300 of 10000; for the rest: offset 4301 …]") {
		t.Errorf("large: %d bytes, %d lines: … %s", len(got), strings.Count(got, "\n"), got[len(got)-100:])
	}
	var part readResult
	res := b.raw("read_file", args{"path": "large", "offset": 4301})
	decode(t, res, &part)
	if got := text(res); !strings.Contains(got, "[… lines 4301 to 8600 of 10000; for the rest: offset 8601 …]") || part.TotalLines != 10_000 {
		t.Errorf("the next: … %s", got[len(got)-100:])
	}
}

func TestInvalidUTF8IsRefused(t *testing.T) {
	b := newBox(t)
	for name, content := range map[string]string{
		"latin1": "caf\xe9", "overlong": "\xc0\xaf", "surrogate": "\xed\xa0\x80", "cut": "€"[:2], "beyond": "\xf4\x90\x80\x80",
	} {
		b.put(name, content)
		if words := b.refused("read_file", args{"path": name}); !strings.Contains(words, "UTF-8") {
			t.Errorf("%s: %s", name, words)
		}
	}
}

func TestReadLines(t *testing.T) {
	b := newBox(t)
	b.put("crlf", "one\r\ntwo\r\nthree")
	b.put("empty", "")
	for _, c := range []struct {
		file string
		in   args
		want string
	}{
		{"crlf", args{}, "one\r\ntwo\r\nthree"},
		{"crlf", args{"offset": 2}, "two\r\nthree"},
		{"crlf", args{"limit": 1}, "one\r\n"},
		{"crlf", args{"offset": 2, "limit": 1}, "two\r\n"},
		{"crlf", args{"offset": 3, "limit": 100}, "three"},
		{"empty", args{"offset": 1}, ""},
	} {
		c.in["path"] = c.file
		var got readResult
		if b.call("read_file", c.in, &got); got.Content != c.want {
			t.Errorf("%v: %q", c.in, got.Content)
		}
		if want := map[string]int{"crlf": 3, "empty": 0}[c.file]; got.TotalLines != want {
			t.Errorf("%v: %d lines, want %d", c.in, got.TotalLines, want)
		}
	}
	for _, in := range []args{{"offset": 0}, {"offset": -1}, {"limit": 0}, {"offset": 4}} {
		in["path"] = "crlf"
		b.refused("read_file", in)
	}
}
