//go:build bench

package edge

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// TestBenchHostile records Traefik's CPU time for one request that was made to
// cost much, and per byte of a large body.
func TestBenchHostile(t *testing.T) {
	rig.Lock(t, "bench")
	s := newStandFor(t, false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) })
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			fmt.Fprint(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"`+base64.RawURLEncoding.EncodeToString(make([]byte, 32))+`"}]}`)
			return
		}
		fmt.Fprintf(w, `{"issuer":"http://%s","jwks_uri":"http://%[1]s/keys"}`, r.Host)
	}))
	defer issuer.Close()
	_, clientFile := rig.NewToken(t)
	_, backendFile := rig.NewToken(t)
	s.SetDynamic(t, s.dynamic(clientFile, backendFile, fmt.Sprintf("          oauth: {issuer: %q, audience: \"https://n.example/mcp/mcp\", tools: [read_file], principals: {me: [read_file]}}\n", issuer.URL)))
	data, err := os.ReadFile(clientFile)
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSpace(string(data))
	keys, claims := &strings.Builder{}, &strings.Builder{}
	for i := range 699_034 {
		fmt.Fprintf(keys, `"%05x":1,`, i)
	}
	for i := range 1_100 {
		fmt.Fprintf(claims, `"c%d":1,`, i)
	}
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(`{`+claims.String()+`"iss":"`+issuer.URL+`"}`)) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64))
	fill := func(before, unit, after string) string {
		return before + strings.Repeat(unit, (8<<20-500-len(before)-len(after))/len(unit)) + after
	}
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":` + arguments + `}}`
	}
	full := strings.NewReplacer(`"arguments"`, `"_meta":{},"arguments"`) // read by the whole parser
	for _, row := range []struct {
		name, token, body string
		times, status     int
		bar, aim          float64 // ms
	}{
		{"a wrong token", "wrong-token-wrong-token-wrong-token-0123", readFile, 200, 401, 2, 1},
		{"a forged JWT of 1,100 claims", forged, readFile, 200, 401, 2, 1},
		{"699,034 keys", good, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + keys.String() + `"z":1}}`, 3, 400, 200, 100},
		{"8 MiB of text", good, call(fill(`{"text":"`, "x", `"}`)), 3, 202, 200, 100},
		{"8 MiB of text, whole parser", good, full.Replace(call(fill(`{"text":"`, "x", `"}`))), 3, 202, 200, 100},
		{"8 MiB of rows", good, call(fill(`{"rows":[`, `{"a":[1,"b"],"c":"dd"},`, `0]}`)), 3, 202, 200, 100},
		{"8 MiB of rows, whole parser", good, full.Replace(call(fill(`{"rows":[`, `{"a":[1,"b"],"c":"dd"},`, `0]}`))), 3, 202, 200, 100},
		{"8 MiB of brackets", good, call(fill(`{"n":[`, "[[]],", `0]}`)), 3, 400, 200, 100},
		{"8 MiB of strings with brackets", good, call(fill(`{"n":[`, `"[{",[],`, `0]}`)), 3, 400, 200, 100},
		{"8 MiB, as many brackets as pass", good, call(fill(`{"n":[`, `"[",[],"aaaaaaaaaa",`, `0]}`)), 3, 202, 200, 100},
		{"chains of 120 levels", good, call(fill(`{"n":[`, strings.Repeat("[", 120)+strings.Repeat("]", 120)+`,"`+strings.Repeat("a", 900)+`",`, `0]}`)), 3, 202, 200, 100},
	} {
		w := wire{method: "POST", target: "/mcp/mcp", body: row.body, header: [][2]string{{"Authorization", "Bearer " + row.token}, {"Content-Type", "application/json"}}}
		w.http1(t, s.Web) // warms up
		status := 0
		var each []float64 // ms, by round
		for range figures.Pick(3, 1) {
			before := s.CPU()
			for range figures.Pick(row.times, 1) {
				status = w.http1(t, s.Web).status
			}
			each = append(each, (s.CPU()-before).Seconds()*1000/float64(figures.Pick(row.times, 1)))
		}
		t.Logf("%-32s %4d %12.3f ms, %.1f ns per byte", row.name, status, figures.Median(each), figures.Median(each)*1e6/float64(len(row.body)))
		figures.Add(t, figures.Row{Group: "Hostile requests", Work: row.name, Unit: "ms", Alternative: "none that reads bodies", Ours: each,
			Judge: figures.Itself, Less: true, Bar: row.bar, Aim: row.aim})
		if status != row.status && status != http.StatusTooManyRequests {
			t.Errorf("%s: status %d, want %d", row.name, status, row.status)
		}
	}
}
