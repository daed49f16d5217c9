package docker_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

const mebi = 1 << 20

// bigBodies are 8 MiB each: text, many keys, many levels, many rows.
func bigBodies() []string {
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":` + arguments + `}}`
	}
	fill := func(before, unit, after string) string {
		return before + strings.Repeat(unit, (8*mebi-300-len(before)-len(after))/len(unit)) + after
	}
	var keys strings.Builder
	for i := 0; keys.Len() < 8*mebi-300; i++ {
		fmt.Fprintf(&keys, `"%x":1,`, i)
	}
	return []string{
		call(fill(`{"text":"`, "x", `"}`)), call(fill(`{"rows":[`, `{"a":[1,"b"]},`, `0]}`)), call(fill(`{"n":[`, "[[]],", `0]}`)),
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + keys.String() + `"z":1}}`,
	}
}

// Eight bodies of 8 MiB at once of each of three tokens do not end Traefik in a
// container of 512 MiB, and nobody else waits for them. Without the budget the
// same requests need more than that.
func TestManyBodiesInSmallContainer(t *testing.T) {
	d := rig.NeedImages(t)
	with := peakMemory(t, d, rig.Root(t), "400MiB")
	t.Logf("peak %d MiB", with/mebi)
	if with == 0 || with > 500*mebi {
		t.Errorf("Traefik's peak is %d MiB", with/mebi)
	}
	if without := peakMemory(t, d, withoutBudget(t), "off"); without != 0 && without <= with+64*mebi {
		t.Errorf("without the budget the peak is %d MiB: the test proves nothing", without/mebi)
	} else {
		t.Logf("without the budget: %d MiB (0: the kernel ended it)", without/mebi)
	}
}

// withoutBudget is a copy of the plugin whose budget has no end.
func withoutBudget(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "plugin"), os.DirFS(filepath.Join(rig.Root(t), "plugin"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".traefik.yml", "go.mod"} {
		data, err := os.ReadFile(filepath.Join(rig.Root(t), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(root, "plugin", "budget.go")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("= 32 << 20", "= 1 << 40", "= 96 << 20", "= 1 << 40", "checking.Lock()\n\tdefer checking.Unlock()", "").Replace(string(data))
	if strings.Count(text, "1 << 40") != 2 {
		t.Fatal("the budget is written in another way")
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// peakMemory is the most that Traefik's container had, or 0 where it was killed.
func peakMemory(t *testing.T, d *rig.Docker, root, limit string) int64 {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		time.Sleep(200 * time.Millisecond) // bodies lie in memory until the answer
		w.WriteHeader(http.StatusAccepted)
	}))
	defer backend.Close()
	dir := t.TempDir()
	var tokens, entries []string
	for i := range 4 {
		token, file := rig.NewToken(t)
		data, _ := os.ReadFile(file)
		os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), data, 0o644)
		tokens = append(tokens, token)
		entries = append(entries, fmt.Sprintf("{name: t%d, valueFile: /etc/test/%d, tools: [read_file], requestsPerMinute: 100000}", i, i))
	}
	addr := rig.FreeAddr(t)
	os.WriteFile(filepath.Join(dir, "dynamic.yml"), fmt.Appendf(nil, `http:
  routers: {r: {rule: "PathPrefix(%s)", service: s, middlewares: [edge]}}
  middlewares: {edge: {plugin: {sallyport: {pathPrefix: /mcp, backendAuth: none, tokens: [%s]}}}}
  services: {s: {loadBalancer: {servers: [{url: %q}]}}}
`, "`/mcp`", strings.Join(entries, ", "), backend.URL), 0o644)
	os.Chmod(dir, 0o755)
	at := "/plugins-local/src/github.com/sallyport-dev/sallyport/"
	id := d.Container("--network", "host", "--memory", "512m", "--memory-swap", "512m", "--env", "GOMEMLIMIT="+limit, "--env", "GOGC=400",
		"-v", dir+":/etc/test:ro", "-v", root+"/plugin:"+at+"plugin:ro", "-v", root+"/.traefik.yml:"+at+".traefik.yml:ro", "-v", root+"/go.mod:"+at+"go.mod:ro",
		tools.TraefikImage, "--entrypoints.web.address="+addr, "--providers.file.filename=/etc/test/dynamic.yml", "--log.level=ERROR",
		"--experimental.localplugins.sallyport.modulename=github.com/sallyport-dev/sallyport")
	rig.Until(t, "Traefik to serve", func() bool { return rig.Status("http://"+addr+"/mcp/mcp") == 401 })
	flood(t, "http://"+addr+"/mcp/mcp", tokens, limit != "off")
	if d.Run("inspect", "--format", "{{.State.OOMKilled}} {{.State.Running}}", id) != "false true" {
		return 0
	}
	status, err := os.ReadFile("/proc/" + d.Run("inspect", "--format", "{{.State.Pid}}", id) + "/status")
	var peak int64
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok && err == nil {
		_, err = fmt.Sscan(rest, &peak)
	}
	if err != nil || peak == 0 {
		t.Fatalf("the peak cannot be read: %v", err)
	}
	return peak << 10
}

// flood sends big bodies of the first three tokens, and small ones of the last.
func flood(t *testing.T, url string, tokens []string, strict bool) {
	t.Helper()
	post := func(token, body string) int {
		client := rig.HTTPClient(token)
		client.Timeout = rig.Deadline
		resp, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			return 0
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode
	}
	var big, small sync.WaitGroup
	var done atomic.Bool
	var served atomic.Int64
	small.Go(func() {
		for !done.Load() {
			if status := post(tokens[3], `{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != http.StatusAccepted && strict {
				t.Errorf("a small body of another token: status %d", status)
			}
		}
	})
	for _, body := range bigBodies() {
		for _, token := range tokens[:3] {
			for range 8 {
				big.Go(func() {
					if post(token, body) == http.StatusAccepted {
						served.Add(1)
					}
				})
			}
		}
		big.Wait()
	}
	done.Store(true)
	small.Wait()
	if served.Load() < 12 && strict {
		t.Errorf("only %d big bodies were served", served.Load())
	}
}
