package token

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = "0123456789abcdef0123456789abcdef"

type outcome struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	if stdin != "" {
		file := write(t, stdin, 0o600)
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		old := os.Stdin
		os.Stdin = f
		defer func() { os.Stdin = old; f.Close() }()
	}
	code := Main(t.Context(), args, &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

func write(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNewSavesAndDoesNotPrint(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	got := run(t, "", "new", name)
	if got.code != 0 || got.stdout != "" {
		t.Fatalf("new: %+v", got)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSuffix(string(raw), "\n")
	if len(secret) < 43 || strings.Contains(got.stderr, secret) {
		t.Errorf("%d characters; or the token was shown: %s", len(secret), got.stderr)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if again := run(t, "", "new", name); again.code != 1 {
		t.Errorf("a second new: %+v", again)
	}
	if after, _ := os.ReadFile(name); !bytes.Equal(after, raw) {
		t.Error("the token was overwritten")
	}
}

func TestNewPrintsWhenAsked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	got := run(t, "", "new", "-print", name)
	raw, _ := os.ReadFile(name)
	if got.code != 0 || got.stdout != string(raw) || len(raw) < 43 {
		t.Errorf("new -print FILE: %+v, file %d bytes", got, len(raw))
	}
	one, two := run(t, "", "new", "-print"), run(t, "", "new", "-print")
	if one.code != 0 || one.stdout == two.stdout || len(one.stdout) < 43 {
		t.Errorf("new -print: %+v, %+v", one, two)
	}
}

func TestHashDropsOneNewline(t *testing.T) {
	sum := sha256.Sum256([]byte(sample))
	want := hex.EncodeToString(sum[:]) + "\n"
	for _, content := range []string{sample, sample + "\n"} {
		if got := run(t, "", "hash", write(t, content, 0o600)); got.stdout != want || got.code != 0 {
			t.Errorf("hash of %q: %+v", content, got)
		}
		if got := run(t, content, "hash"); got.stdout != want || got.code != 0 {
			t.Errorf("hash of %q on standard input: %+v", content, got)
		}
	}
}

func TestUnfitTokensAreNamedAndNotShown(t *testing.T) {
	for name, content := range map[string]string{
		"short":        sample[1:],
		"two newlines": sample + "\n\n",
		"CRLF":         sample + "\r\n",
		"space":        sample + " x",
		"not ASCII":    sample + "é",
		"NUL":          sample + "\x00",
		"too long":     strings.Repeat("a", 4097),
		"empty":        "",
	} {
		for _, verb := range []string{"hash", "check"} {
			got := run(t, "", verb, write(t, content, 0o600))
			if got.code != 1 || got.stdout != "" || strings.Contains(got.stderr, "0123456789") {
				t.Errorf("%s of a token with %s: %+v", verb, name, got)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	good := write(t, sample+"\n", 0o600)
	sum := run(t, "", "hash", good).stdout
	if got := run(t, "", "check", "-sha256", strings.TrimSpace(sum), good); got.code != 0 {
		t.Errorf("a good file: %+v", got)
	}
	if got := run(t, "", "check", "-sha256", strings.Repeat("0", 64), good); got.code != 1 {
		t.Errorf("another hash: %+v", got)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o666, 0o610} {
		if got := run(t, "", "check", write(t, sample, mode)); got.code != 1 || !strings.Contains(got.stderr, "chmod 600") {
			t.Errorf("mode %04o: %+v", mode, got)
		}
	}
}

// A token given as an argument, by mistake, is not repeated in any message.
func TestArgumentsAreNotRepeated(t *testing.T) {
	for _, args := range [][]string{
		{sample}, {"hash", sample}, {"check", sample}, {"new", "-print", "x", sample}, {"hash", "-" + sample}, {"check", "-sha256", sample, "x"},
	} {
		got := run(t, "", args...)
		if got.code == 0 || strings.Contains(got.stdout+got.stderr, sample) {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestMistakesAreUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"frob"}, {"new"}, {"check"}, {"new", "a", "b"}, {"check", "-sha256", "xyz", "f"}} {
		if got := run(t, "", args...); got.code != 2 || !strings.HasSuffix(got.stderr, "; see sallyport token -h\n") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := run(t, "", "new", "-h"); got.code != 0 || got.stdout != Usage {
		t.Errorf("new -h: %+v", got)
	}
}
