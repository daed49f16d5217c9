package hosts

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// askGo reads the module proxies and the checksum database (go help
// environment).
func askGo(ctx context.Context) (a answer, err error) {
	out, err := run(ctx, []string{"GOENV=off", "GOTOOLCHAIN=local", "GOWORK=off"}, "go", "env", "-json", "GOPROXY",
		"GOSUMDB")
	if err != nil {
		return a, err
	}
	var env map[string]string
	if err := json.Unmarshal([]byte(out), &env); err != nil {
		return a, err
	}
	for _, proxy := range strings.FieldsFunc(env["GOPROXY"], func(r rune) bool { return r == ',' || r == '|' }) {
		switch proxy {
		case "off":
		case "direct":
			a.notes = append(a.notes, "go: modules that no proxy has are fetched from their own hosts, which need "+
				"rules of their own")
		default:
			a.urls = append(a.urls, proxy)
		}
	}
	if sum := strings.Fields(env["GOSUMDB"]); len(sum) > 0 && sum[0] != "off" {
		name, _, _ := strings.Cut(sum[len(sum)-1], "+")
		if !strings.Contains(name, "://") {
			name = "https://" + name
		}
		a.urls = append(a.urls, name)
	}
	return a, nil
}

// askNpm reads the registries, those of scopes among them.
func askNpm(ctx context.Context) (a answer, err error) {
	out, err := run(ctx, []string{"npm_config_userconfig=/dev/null"}, "npm", "config", "list", "--json",
		"--location=global")
	if err != nil {
		return a, err
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(out), &settings); err != nil {
		return a, err
	}
	for name, value := range settings {
		if text, ok := value.(string); ok && (name == "registry" || strings.HasSuffix(name, ":registry")) {
			a.urls = append(a.urls, text)
		}
	}
	slices.Sort(a.urls)
	return a, nil
}

var pipDefault = regexp.MustCompile(`\(default\s+(https?://[^)\s]+)\)`)

// askPip reads the index, and asks that for the host of its files.
func askPip(ctx context.Context) (a answer, err error) {
	out, err := run(ctx, nil, "pip", "--disable-pip-version-check", "config", "--global", "list")
	if err != nil {
		return a, err
	}
	index := ""
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, "'")
		switch {
		case strings.HasSuffix(name, ".extra-index-url"):
			a.urls = append(a.urls, strings.FieldsFunc(value,
				func(r rune) bool { return r == '\n' || r == ' ' || r == '\\' })...)
		case strings.HasSuffix(name, ".index-url"):
			index = value
		}
	}
	if index == "" {
		help, err := run(ctx, nil, "pip", "install", "--help")
		if err != nil {
			return a, err
		}
		found := pipDefault.FindStringSubmatch(help)
		if found == nil {
			return a, errors.New("pip does not say its index")
		}
		index = found[1]
	}
	a.urls = append([]string{index}, a.urls...)
	for _, u := range slices.Clone(a.urls) {
		a.ask(ctx, "pip", strings.TrimSuffix(u, "/")+"/pip/", hrefHost)
	}
	return a, nil
}

var href = regexp.MustCompile(`href="([^"#]+)`)

// hrefHost is where the files of a page of PEP 503 are.
func hrefHost(page *url.URL, body []byte) (string, error) {
	m := href.FindSubmatch(body)
	if m == nil {
		return "", errors.New("it lists no file")
	}
	u, err := page.Parse(string(m[1]))
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// ask fetches a page of an index, for the host of its files.
func (a *answer) ask(ctx context.Context, tool, page string, read func(*url.URL, []byte) (string, error)) {
	found, err := fetch(ctx, page, read)
	if err != nil {
		a.notes = append(a.notes, fmt.Sprintf("%s: %s could not be asked for the host of its files (%v); the first "+
			"refusal will name it", tool, page, err))
		return
	}
	if r, err := rule(found); err == nil && !slices.Contains(a.urls, r) {
		a.urls = append(a.urls, found)
	}
}

func fetch(ctx context.Context, page string, read func(*url.URL, []byte) (string, error)) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return "", err
	}
	return read(resp.Request.URL, body)
}

// askCargo lets cargo look for a crate through a proxy that only listens:
// where its index is stands in no setting that it would print.
func askCargo(ctx context.Context) (a answer, err error) {
	dir, err := os.MkdirTemp("", "sallyport-hosts-")
	if err != nil {
		return a, err
	}
	defer os.RemoveAll(dir)
	os.Mkdir(filepath.Join(dir, "src"), 0o700)
	os.WriteFile(filepath.Join(dir, "src", "lib.rs"), nil, 0o600)
	os.WriteFile(filepath.Join(dir, "Cargo.toml"),
		[]byte("[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ncfg-if = \"1\"\n"),
		0o600)
	proxy, asked, err := listener()
	if err != nil {
		return a, err
	}
	defer proxy.Close()
	env := []string{"CARGO_HOME=" + filepath.Join(dir, "home"), "CARGO_HTTP_PROXY=http://" + proxy.Addr().String(), "CARGO_NET_RETRY=0"}
	run(ctx, env, "cargo", "fetch", "--manifest-path", filepath.Join(dir, "Cargo.toml")) // it fails
	for _, index := range asked() {
		a.urls = append(a.urls, index)
		a.ask(ctx, "cargo", index+"/config.json", func(_ *url.URL, body []byte) (string, error) {
			var c struct{ DL string }
			err := json.Unmarshal(body, &c)
			return c.DL, err
		})
	}
	if len(a.urls) == 0 {
		return a, errors.New("cargo asked for no host")
	}
	return a, nil
}

// listener is a proxy that refuses everything and keeps what was asked for.
func listener() (net.Listener, func() []string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var asked []string
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				u := "https://" + strings.TrimSuffix(req.Host, ":443")
				if req.Method != http.MethodConnect {
					u = "http://" + req.Host
				}
				mu.Lock()
				if !slices.Contains(asked, u) {
					asked = append(asked, u)
				}
				mu.Unlock()
				io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}()
		}
	}()
	return l, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(asked) }, nil
}

// askApt reads the sources.
func askApt(ctx context.Context) (a answer, err error) {
	out, err := run(ctx, nil, "apt-get", "indextargets", "--format", "$(REPO_URI)")
	if err != nil {
		return a, err
	}
	for line := range strings.Lines(out) {
		if u := strings.TrimSpace(line); strings.HasPrefix(u, "http") && !slices.Contains(a.urls, u) {
			a.urls = append(a.urls, u)
		}
	}
	if len(a.urls) == 0 {
		return a, errors.New("apt names no source (run apt-get update once)")
	}
	return a, nil
}
