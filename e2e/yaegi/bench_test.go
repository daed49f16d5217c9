package yaegi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/plugin"
	"github.com/traefik/yaegi/interp"
	"github.com/traefik/yaegi/stdlib"
)

const benchToken = "0123456789abcdef0123456789abcdef"

// interpreted loads the plugin as Traefik does and returns its New.
func interpreted(b testing.TB, settings any, next http.Handler) http.Handler {
	i := interp.New(interp.Options{GoPath: gopath(b), Stdout: io.Discard})
	if err := i.Use(stdlib.Symbols); err != nil {
		b.Fatal(err)
	}
	eval := func(code string) reflect.Value {
		v, err := i.Eval(code)
		if err != nil {
			b.Fatalf("%s: %v", code, err)
		}
		return v
	}
	eval(`import "` + module + `/plugin"`)
	config := eval("plugin.CreateConfig()")
	decode(b, settings, config.Interface())
	results := eval("plugin.New").Call([]reflect.Value{
		reflect.ValueOf(context.Background()), reflect.ValueOf(next), config, reflect.ValueOf(b.Name()),
	})
	if err, _ := results[1].Interface().(error); err != nil {
		b.Fatal(err)
	}
	return results[0].Interface().(http.Handler)
}

func compiled(b testing.TB, settings any, next http.Handler) http.Handler {
	config := plugin.CreateConfig()
	decode(b, settings, config)
	h, err := plugin.New(context.Background(), next, config, b.Name())
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkPlugin is what one request costs the plugin itself, compiled and
// interpreted: without a body, and with everything on for 1 KiB of JSON.
func BenchmarkPlugin(b *testing.B) {
	_, backendFile := rig.NewToken(b)
	settings := func(audit string) map[string]any {
		return map[string]any{"backend": "sandbox", "pathPrefix": "/mcp", "backendTokenFile": backendFile, "auditLog": audit,
			"allowedOrigins": []any{"https://a.example"}, "tokens": []any{map[string]any{"name": "a", "valueFile": tokenFile(b),
				"tools": []any{"read_file"}, "requestsPerMinute": 1000000000}}}
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"` + strings.Repeat("a", 930) + `"}}}`
	next := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header()["Content-Length"] = []string{"0"}
		rw.WriteHeader(http.StatusAccepted)
	})
	for _, way := range []struct {
		name string
		load func(testing.TB, any, http.Handler) http.Handler
	}{{"compiled", compiled}, {"interpreted", interpreted}} {
		b.Run("bearer/"+way.name, func(b *testing.B) { drive(b, way.load(b, scalarsAsText(settings("false")), next), "DELETE", "") })
		b.Run("everything/"+way.name, func(b *testing.B) { drive(b, way.load(b, scalarsAsText(settings("true")), next), "POST", call) })
	}
	b.Run("request", func(b *testing.B) { drive(b, next, "POST", call) })
}

func tokenFile(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "token")
	if err := os.WriteFile(path, []byte(benchToken), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func drive(b *testing.B, h http.Handler, method, body string) {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	// The audit goes to the process's standard output, as the results do.
	stdout := *os.Stdout
	*os.Stdout = *nowhere
	defer func() { *os.Stdout = stdout }()
	b.ReportAllocs()
	b.ResetTimer() // without loading the plugin
	defer cpuPerOp(b)()
	for range b.N {
		r := httptest.NewRequest(method, "/mcp/mcp", strings.NewReader(body))
		for key, value := range map[string]string{"Authorization": "Bearer " + benchToken, "Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "User-Agent": "node", "Mcp-Protocol-Version": "2025-11-25",
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "node.example", "X-Forwarded-Port": "80", "X-Forwarded-Proto": "http",
			"X-Forwarded-Server": "a", "X-Real-Ip": "127.0.0.1", "Content-Length": "1024"} {
			r.Header[key] = []string{value}
		}
		if body != "" {
			r.Header["Origin"] = []string{"https://a.example"}
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusAccepted {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}
