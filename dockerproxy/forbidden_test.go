package main

import (
	"fmt"
	"strings"
	"testing"
)

// A source at, under or above where the sandbox writes is refused: a command
// could swap it for a link to anything on the host. Without the setting the
// same entry is created.
func TestForbiddenSources(t *testing.T) {
	const list = "/home/me/work:/srv/sallyport"
	for source, bad := range map[string]bool{
		"/home/me/work": true, "/home/me/work/docs": true, "/home/me/work/": true, "/home/me": true, "/home": true,
		"/home/me/x/../work/docs": true, "/home/me/./work": true, "//home//me/work": true, "/srv/sallyport/config": true, "/srv": true,
		"/home/me/workshop": false, "/home/me/wor": false, "/srv/sallyport2": false, "/home/you": false, "work": false,
	} {
		for _, mode := range []string{"", ":ro"} {
			config := fmt.Sprintf(`{"mcpServers": {"s": {"type": "docker", "image": "img", "volumes": [%q]}, "plain": {"type": "docker", "image": "img"}}}`, source+":/data"+mode)
			for _, forbidden := range []string{list, "none"} {
				b := prepare(t, config)
				var err error
				if b.s.forbidden, err = forbiddenSources(forbidden); err != nil {
					t.Fatal(err)
				}
				n, err := loadPolicy(b.s)
				if err != nil {
					t.Fatal(err)
				}
				broken := n.config.Broken["s"]
				if want := bad && forbidden == list; (broken != nil) != want || (n.config.Servers["s"] == nil) != want || n.config.Servers["plain"] == nil {
					t.Errorf("%s%s with %s: %v", source, mode, forbidden, broken)
				}
				if broken != nil && !strings.Contains(broken.Error(), "FORBIDDEN_SOURCES") {
					t.Errorf("%s: the reason says not what forbids it: %v", source, broken)
				}
			}
		}
	}
}

// Of an entry that is forbidden nothing reaches the daemon, neither at the start
// nor after an edit; the same entry without the setting is created.
func TestForbiddenSourceReachesNoDaemon(t *testing.T) {
	const config = `{"mcpServers": {"s": {"type": "docker", "image": "img", "volumes": ["/home/me/work/docs:/data:ro"]}}}`
	for _, forbidden := range []string{"/home/me/work", "none"} {
		b := prepare(t, config)
		b.s.forbidden, _ = forbiddenSources(forbidden)
		b.start()
		h := b.greet()
		reply := h.ask(b.ensureLine("s", nil))
		created := strings.Contains(strings.Join(b.requests(), "\n"), "/containers/create")
		if refused := !reply.OK; refused == (forbidden == "none") || created == refused {
			t.Errorf("%s: %+v, created %v", forbidden, reply, created)
		}
	}
}

// Unset refuses the start and says what to write; a path that says less than it
// seems to is refused too.
func TestForbiddenSourcesIsRequired(t *testing.T) {
	for value, want := range map[string]string{"": "make env", "work": "absolute", "/": "absolute", "/a/../b": "absolute", "/a:": "absolute", "/a/": "absolute", "None": "absolute", "none:/a": "absolute"} {
		if _, err := forbiddenSources(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
	if all, err := forbiddenSources("/a/b:/c"); err != nil || len(all) != 2 {
		t.Errorf("two paths: %v %v", all, err)
	}
	if code, _, errs := command(t, nil); code != 2 || !strings.Contains(errs, "FORBIDDEN_SOURCES is required") {
		t.Errorf("a start without it: %d %s", code, errs)
	}
}
