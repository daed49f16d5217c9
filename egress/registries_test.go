package main_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The stand-ins of registries. Each serves one package, "hello", by the
// protocol of its tool, files from another host where the real ones do.

// files is a registry whose answers are known.
type files map[string][]byte

func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, ok := f[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if bytes.HasPrefix(body, []byte("<")) {
		w.Header().Set("Content-Type", "text/html")
	}
	w.Write(body)
}

// publish lets name be that registry, at an address of its own or a shared one.
func publish(name, address string, h http.Handler) {
	world.dns.Set(name, address)
	world.registries.Store(name, h)
}

func tarball(t *testing.T, entries map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range entries {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
		w.Write([]byte(text))
	}
	w.Close()
	z.Close()
	return out.Bytes()
}

func zipped(t *testing.T, entries map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range entries {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(text))
	}
	w.Close()
	return out.Bytes()
}

// npmRegistry serves hello for npm install and npx.
func npmRegistry(t *testing.T, host string) http.Handler {
	pkg := tarball(t, map[string]string{
		"package/package.json": `{"name":"hello","version":"1.0.0","main":"index.js","bin":{"hello":"bin.js"}}`,
		"package/index.js":     `module.exports = "hello from npm"`, "package/bin.js": "#!/usr/bin/env node\nconsole.log('hello from npx')\n"})
	sum := sha512.Sum512(pkg)
	doc := fmt.Sprintf(`{"name":"hello","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"hello","version":"1.0.0","bin":{"hello":"bin.js"},
		"dist":{"tarball":"https://%s/hello/-/hello-1.0.0.tgz","integrity":"sha512-%s"}}}}`, host, base64.StdEncoding.EncodeToString(sum[:]))
	return files{"/hello": []byte(doc), "/hello/-/hello-1.0.0.tgz": pkg}
}

// pipIndex serves the page of PEP 503, whose files are on another host.
func pipIndex(filesHost string) http.Handler {
	return files{"/simple/hello/": []byte(`<a href="https://` + filesHost + `/hello-1.0-py3-none-any.whl">hello-1.0-py3-none-any.whl</a>`)}
}

func pipFiles(t *testing.T) http.Handler {
	return files{"/hello-1.0-py3-none-any.whl": zipped(t, map[string]string{
		"hello.py": "word = 'hello from pip'\n", "hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "hello-1.0.dist-info/RECORD": ""})}
}

// goProxy serves a module (go help goproxy).
func goProxy(t *testing.T) http.Handler {
	const at = "/hello.example/m/@v/"
	return files{at + "list": []byte("v1.0.0\n"), at + "v1.0.0.info": []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`),
		at + "v1.0.0.mod": []byte("module hello.example/m\n"), "/hello.example/m/@latest": []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`),
		at + "v1.0.0.zip": zipped(t, map[string]string{"hello.example/m@v1.0.0/go.mod": "module hello.example/m\n", "hello.example/m@v1.0.0/m.go": "package m\n"})}
}

// cargoIndex is a sparse index, whose crates are on another host.
func cargoIndex(t *testing.T, crates string) (index, dl http.Handler) {
	crate := tarball(t, map[string]string{"hello-1.0.0/Cargo.toml": "[package]\nname = \"hello\"\nversion = \"1.0.0\"\nedition = \"2021\"\n", "hello-1.0.0/src/lib.rs": ""})
	line := fmt.Sprintf(`{"name":"hello","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(crate))
	return files{"/config.json": []byte(`{"dl":"https://` + crates + `/crates/{crate}/{version}"}`), "/he/ll/hello": []byte(line)},
		files{"/crates/hello/1.0.0": crate}
}

// gitHost serves a repository as plain files.
func gitHost(t *testing.T) http.Handler {
	t.Helper()
	dir := t.TempDir()
	script := `git init -q w && cd w && echo hello from git >f && git add f && git -c user.name=t -c user.email=t@example.com commit -qm one &&
		cd .. && git clone -q --bare w hello.git && git --git-dir=hello.git update-server-info`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return http.FileServer(http.Dir(filepath.Clean(dir)))
}
