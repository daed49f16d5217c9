package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestParseSecrets(t *testing.T) {
	values, err := parseSecrets([]byte("# a comment\n\nA=1\r\n B = two words \nC=\"q # q\"\nD='\"'\nE=\nF=a=b\n_g9={\"x\": 1}"))
	want := map[string]string{"A": "1", "B": "two words", "C": "q # q", "D": `"`, "E": "", "F": "a=b", "_g9": `{"x": 1}`}
	if err != nil || fmt.Sprint(values) != fmt.Sprint(want) {
		t.Errorf("%v, %q", err, values)
	}
	many := strings.Builder{}
	for i := range maxSecrets {
		fmt.Fprintf(&many, "K%d=v\n", i)
	}
	if _, err := parseSecrets([]byte(many.String())); err != nil {
		t.Errorf("%d variables: %v", maxSecrets, err)
	}
	for name, text := range map[string]string{
		"duplicate":  "A=topsecret\nB=1\nA=topsecret",
		"NUL":        "A=topsecret\x00",
		"no =":       "topsecret",
		"name":       "A B=topsecret",
		"export":     "export A=topsecret",
		"digit":      "1A=topsecret",
		"no name":    "=topsecret",
		"quote":      "A=\"topsecret",
		"half quote": "A='",
		"encoding":   "A=topsecret\xff",
		"too large":  "A=" + strings.Repeat("x", maxSecretsFile),
		"too many":   many.String() + "ONE=more",
	} {
		if _, err := parseSecrets([]byte(text)); err == nil || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecretsFiles: each check, and its twin without what it refuses.
func TestSecretsFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, mode os.FileMode, text string) {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"m400": 0o400, "m600": 0o600, "m640": 0o640, "m440": 0o440} {
		write(name+".env", mode, "A=1")
		if set, err := readSecrets(dir, name); err != nil || set.values["A"] != "1" || set.print == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, mode := range map[string]os.FileMode{"m644": 0o644, "m660": 0o660, "m604": 0o604, "m700": 0o700, "m650": 0o650} {
		write(name+".env", mode, "A=1")
		if _, err := readSecrets(dir, name); err == nil || !strings.Contains(err.Error(), "chmod 640") {
			t.Errorf("%s: %v", name, err)
		}
	}
	write("full.env", 0o600, "A="+strings.Repeat("x", maxSecretsFile-2))
	if _, err := readSecrets(dir, "full"); err != nil {
		t.Errorf("exactly the limit: %v", err)
	}
	write("over.env", 0o600, "A="+strings.Repeat("x", maxSecretsFile-1))
	os.Symlink("m600.env", path("link.env"))
	os.Mkdir(path("dir.env"), 0o600)
	if err := syscall.Mkfifo(path("fifo.env"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{"over": "larger", "link": "symbolic link", "dir": "not a regular file", "fifo": "not a regular file", "none": "no such file"} {
		if _, err := readSecrets(dir, name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", name, err, why)
		}
	}
}

func FuzzParseSecrets(f *testing.F) {
	f.Add([]byte("# c\nA=1\nB=\"x\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := parseSecrets(data)
		if err != nil {
			return
		}
		text := ""
		for name, value := range values {
			if strings.ContainsAny(value, "\n\x00") || strings.ContainsAny(name, "= \n\x00") || name == "" {
				t.Fatalf("%q became %q=%q", data, name, value)
			}
			text += name + "='" + value + "'\n"
		}
		if again, err := parseSecrets([]byte(text)); len(text) < maxSecretsFile && (err != nil || fmt.Sprint(again) != fmt.Sprint(values)) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
