package edge

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The edge recognizes requests by their headers. Whatever stands on the wire gets the
// same answer before and after a request that it could be taken for.
func TestSeenBeforeOrNot(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		s := newStand(t, fast)
		const kind = "application/json"
		good := [][2]string{{"Authorization", "Bearer " + s.token}, {"Content-Type", kind}}
		variants := map[string][][2]string{
			"a blank behind the token":  {{"Authorization", "Bearer " + s.token + " "}, {"Content-Type", kind}},
			"a tab behind the token":    {{"Authorization", "Bearer " + s.token + "\t"}, {"Content-Type", kind}},
			"a blank before the scheme": {{"Authorization", " Bearer " + s.token}, {"Content-Type", kind}},
			"a blank before the type":   {{"Authorization", "Bearer " + s.token}, {"Content-Type", " " + kind}},
			"a blank behind the type":   {{"Authorization", "Bearer " + s.token}, {"Content-Type", kind + " "}},
			"the token twice":           append(good[:2:2], good[0]),
			"the type twice":            append(good[:2:2], good[1]),
			"an empty Origin":           append(good[:2:2], [2]string{"Origin", ""}),
			"no type":                   good[:1],
			"no token":                  good[1:],
		}
		send := map[string]func(wire, *testing.T, string) answer{"http1": wire.http1, "h2c": wire.h2c}
		before := map[string]int{}
		ask := func(version string, header [][2]string) int {
			if version == "h2c" { // only what says how long it is, and is short, is recognized
				header = append(header[:len(header):len(header)], [2]string{"Content-Length", strconv.Itoa(len(readFile))})
			}
			return send[version](wire{method: "POST", target: "/mcp/mcp", body: readFile, header: header}, t, s.Web).status
		}
		for what, header := range variants {
			before[what] = ask("h2c", header)
		}
		for range 3 {
			if code := ask("http1", good); code != 200 {
				t.Fatalf("a good call: %d", code)
			}
		}
		for what, header := range variants {
			if after := ask("h2c", header); after != before[what] {
				t.Errorf("%s: %d at first, %d after a good call", what, before[what], after)
			}
		}
	})
}

// A token that leaves its file is refused within a second, however busy it is and however
// well its headers are known; the new one passes then.
func TestKnownTokenLeavesItsFile(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		b := newBackend(t)
		s := &stand{backend: b}
		token, file := rig.NewToken(t)
		_, backendFile := rig.NewToken(t)
		s.Traefik = rig.StartTraefik(t, rig.TraefikOptions{FastProxy: fast, Dynamic: s.dynamic(file, backendFile, ""),
			Args: []string{"--entrypoints.twin.address=" + rig.FreeAddr(t)}})
		ask := func(token string) int {
			return wire{method: "POST", target: "/mcp/mcp", body: readFile, header: [][2]string{
				{"Authorization", "Bearer " + token}, {"Content-Type", "application/json"}}}.http1(t, s.Web).status
		}
		for range 20 {
			if code := ask(token); code != 200 {
				t.Fatalf("the token in the file: %d", code)
			}
		}
		next, _ := rig.NewToken(t)
		changed := filepath.Join(filepath.Dir(file), "changed")
		err := os.WriteFile(changed, []byte(next), 0o644)
		if err == nil {
			err = os.Rename(changed, file)
		}
		if err != nil {
			t.Fatal(err)
		}
		begin, late := time.Now(), 0
		for ask(token) == 200 {
			if time.Since(begin) > time.Second { // a request that began within it may end after it
				late++
			}
			if late > 1 {
				t.Fatalf("the old token still passes after %v", time.Since(begin))
			}
		}
		if old, fresh := ask(token), ask(next); old != 401 || fresh != 200 {
			t.Errorf("the old token %d, the new one %d", old, fresh)
		}
	})
}
