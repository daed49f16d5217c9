package main

import (
	"archive/tar"
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fake is a Docker daemon that records what it is asked. Its containers run a
// function; it knows real framing, real upgrades and AutoRemove.
type fake struct {
	t      *testing.T
	socket string

	mu         sync.Mutex
	seen       []string // "METHOD path?query body"
	containers map[string]*fakeContainer
	images     map[string]string // name to inspect answer
	volumes    map[string]string
	answers    map[string]string // "METHOD path-without-version" to a raw HTTP response, first match wins
	version    string
	program    func(c *fakeContainer)
	made       int
	dials      atomic.Int32        // connections that came
	files      map[string]fakeFile // of every image, by path
}

type fakeFile struct {
	kind byte
	text string
}

type fakeContainer struct {
	id, name, state string
	body            map[string]any
	conn            net.Conn // the attached one
	in              *bufio.Reader
	gone            chan struct{}
	once            sync.Once
	code            atomic.Int32
}

// out writes one of the daemon's frames.
func (c *fakeContainer) out(kind byte, text string) {
	head := binary.BigEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(text)))
	c.conn.Write(append(head, text...))
}

// echo is a server that answers each line and ends with its stdin.
func echo(c *fakeContainer) {
	lines := bufio.NewScanner(c.in)
	for lines.Scan() {
		c.out(2, "log "+lines.Text())
		c.out(1, "got "+lines.Text()+"\n")
	}
}

const goodImage = `{"Id":"sha256:1111","Config":{"Entrypoint":["/server"],"Cmd":null,"Env":["PATH=/bin","LD_PRELOAD=/x.so"],"Volumes":{"/cache":{}},"Labels":{"traefik.enable":"true"}}}`

func newFake(t *testing.T) *fake {
	f := &fake{t: t, socket: filepath.Join(t.TempDir(), "docker.sock"), containers: map[string]*fakeContainer{},
		images: map[string]string{"img": goodImage}, volumes: map[string]string{}, answers: map[string]string{},
		version: `{"ApiVersion":"1.41","MinAPIVersion":"1.12"}`, program: echo}
	listener, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.dials.Add(1)
		}
	}}
	go server.Serve(listener)
	t.Cleanup(func() {
		server.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.containers {
			go c.end(f, 137)
		}
	})
	return f
}

// set changes what the daemon says from now on. Nothing else may: the proxy
// goes on asking after a test has had its answer.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// runs is the program of the containers that start from now on.
func (f *fake) runs(program func(c *fakeContainer)) { f.set(func() { f.program = program }) }

// requests that came, in order, without the answers to /version.
func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.seen), func(s string) bool { return strings.HasPrefix(s, "GET /version") })
}

func (f *fake) names() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		names = append(names, c.name)
	}
	return names
}

// put adds a container that somebody else has made.
func (f *fake) put(name, state string, labels map[string]any) *fakeContainer {
	return f.add(name, state, map[string]any{"Labels": labels})
}

func (f *fake) add(name, state string, body map[string]any) *fakeContainer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	c := &fakeContainer{id: fmt.Sprintf("%064x", f.made), name: name, state: state, gone: make(chan struct{}), body: body}
	f.containers[c.id] = c
	return c
}

func (f *fake) find(name string) *fakeContainer {
	if c := f.containers[name]; c != nil {
		return c
	}
	for _, c := range f.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// end is AutoRemove: the streams close, the name is free, the wait is answered.
func (c *fakeContainer) end(f *fake, code int) {
	c.once.Do(func() {
		f.mu.Lock()
		delete(f.containers, c.id)
		c.code.Store(int32(code))
		conn := c.conn
		f.mu.Unlock()
		if conn != nil {
			conn.Close()
		}
		close(c.gone)
	})
}

var fakePath = regexp.MustCompile(`^/v1\.\d+(/.*)$`)

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := r.URL.Path
	f.mu.Lock()
	f.seen = append(f.seen, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	if m := fakePath.FindStringSubmatch(path); m != nil {
		path = m[1]
	}
	raw := f.answers[r.Method+" "+path]
	f.mu.Unlock()
	if raw != "" {
		conn, _, _ := w.(http.Hijacker).Hijack()
		io.WriteString(conn, raw)
		conn.Close()
		return
	}
	f.route(w, r, path, body)
}

func (f *fake) route(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/version":
		f.mu.Lock()
		defer f.mu.Unlock()
		io.WriteString(w, f.version)
	case path == "/containers/json":
		f.list(w, r)
	case path == "/containers/create":
		f.create(w, r, body)
	case parts[0] == "images" && r.Method == "GET":
		f.answer(w, f.images, strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json"))
	case path == "/images/create" && r.URL.Query().Get("fromImage") == "endless":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case path == "/images/create":
		f.mu.Lock()
		f.images[r.URL.Query().Get("fromImage")+":"+r.URL.Query().Get("tag")] = goodImage
		f.mu.Unlock()
		io.WriteString(w, `{"status":"Pulling"}{"status":"Done"}`)
	case parts[0] == "volumes":
		f.answer(w, f.volumes, parts[1])
	case parts[0] == "containers":
		f.mu.Lock()
		c := f.find(parts[1])
		f.mu.Unlock()
		if c == nil {
			fakeError(w, 404, "No such container: "+parts[1])
			return
		}
		f.act(w, r, c, strings.Join(parts[2:], "/"))
	default:
		fakeError(w, 500, "the fake daemon does not know "+path)
	}
}

func fakeError(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
}

func (f *fake) answer(w http.ResponseWriter, all map[string]string, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if all[name] == "" {
		fakeError(w, 404, "no such thing: "+name)
		return
	}
	io.WriteString(w, all[name])
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	var filter struct{ Label []string }
	json.Unmarshal([]byte(r.URL.Query().Get("filters")), &filter)
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []map[string]any{}
	for _, c := range f.containers {
		labels, _ := c.body["Labels"].(map[string]any)
		for key, value := range labels {
			if slices.Contains(filter.Label, fmt.Sprintf("%s=%v", key, value)) {
				all = append(all, map[string]any{"Id": c.id, "State": c.state, "Labels": labels})
			}
		}
	}
	json.NewEncoder(w).Encode(all)
}

func (f *fake) create(w http.ResponseWriter, r *http.Request, body []byte) {
	name := r.URL.Query().Get("name")
	f.mu.Lock()
	taken := f.find(name) != nil
	f.mu.Unlock()
	if taken {
		fakeError(w, 409, "Conflict. The container name is already in use")
		return
	}
	var container map[string]any
	json.Unmarshal(body, &container)
	c := f.add(name, "created", container)
	w.WriteHeader(201)
	json.NewEncoder(w).Encode(map[string]any{"Id": c.id, "Warnings": []string{}})
}

func (f *fake) act(w http.ResponseWriter, r *http.Request, c *fakeContainer, verb string) {
	f.mu.Lock()
	state := c.state
	f.mu.Unlock()
	switch r.Method + " " + verb {
	case "GET json":
		json.NewEncoder(w).Encode(map[string]any{"Id": c.id, "Name": "/" + c.name, "State": map[string]any{"Status": state},
			"Config": map[string]any{"Labels": c.body["Labels"]}})
	case "POST attach":
		conn, in, _ := w.(http.Hijacker).Hijack()
		f.mu.Lock()
		c.conn, c.in = conn, in.Reader
		f.mu.Unlock()
		io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	case "GET archive":
		f.mu.Lock()
		file := f.files[r.URL.Query().Get("path")]
		f.mu.Unlock()
		archive := tar.NewWriter(w)
		archive.WriteHeader(&tar.Header{Name: "file", Typeflag: file.kind, Linkname: "x", Size: int64(len(file.text)), Mode: 0o644})
		io.WriteString(archive, file.text)
		archive.Close()
	case "POST wait":
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		select {
		case <-c.gone:
			fmt.Fprintf(w, `{"StatusCode":%d}`, c.code.Load())
		case <-r.Context().Done():
		}
	case "POST start":
		f.mu.Lock()
		c.state = "running"
		program := f.program
		f.mu.Unlock()
		w.WriteHeader(204)
		go func() {
			program(c)
			c.end(f, int(c.code.Load()))
		}()
	case "POST stop", "DELETE ":
		c.end(f, 143)
		w.WriteHeader(204)
	default:
		fakeError(w, 500, "the fake daemon does not know "+verb)
	}
}
