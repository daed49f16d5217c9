package main_test

import (
	"fmt"
	"strings"
	"testing"
)

// Requests in clear text: one per connection, to the host that was decided
// about, framed anew.
func TestClearText(t *testing.T) {
	forget()
	world.dns.Set("ok.example", "93.184.215.10")
	world.dns.Set("evil.example", "93.184.215.11")
	e := start(t, "http://ok.example,ok.example,http://*.ok.example")
	c := e.command(t, "c1", "*")
	for name, row := range map[string]struct{ request, want string }{
		"foreign Host":       {"GET http://ok.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "bad_request"},
		"two Hosts":          {"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nHost: evil.example\r\n\r\n", "bad_request"},
		"origin form":        {"GET / HTTP/1.1\r\nHost: ok.example\r\n\r\n", "bad_request"},
		"https":              {"GET https://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n", "bad_request"},
		"ftp":                {"GET ftp://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n", "bad_request"},
		"another scheme":     {"GET file:///etc/passwd HTTP/1.1\r\n\r\n", "bad_request"},
		"not listed":         {"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "above_ceiling"},
		"another port":       {"GET http://ok.example:443/ HTTP/1.1\r\nHost: ok.example:443\r\n\r\n", "above_ceiling"},
		"user":               {"GET http://ok.example@evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "bad_name"},
		"backslash":          {"GET http://evil.example\\.ok.example/ HTTP/1.1\r\n\r\n", "bad_name"},
		"percent":            {"GET http://evil.example%2f.ok.example/ HTTP/1.1\r\n\r\n", "bad_name"},
		"length and chunked": {"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_request"},
		"two lengths":        {"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "bad_request"},
		"a list of lengths":  {"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 3, 3\r\n\r\nabc", "bad_request"},
		"odd coding":         {"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "bad_request"},
		"line feeds":         {"GET http://ok.example/ HTTP/1.1\nHost: ok.example\n\n", "bad_request"},
		"a folded line":      {"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n x: y\r\n\r\n", "bad_request"},
		"a bare CR":          {"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nX: a\rHost: evil.example\r\n\r\n", "bad_request"},
		"blank before colon": {"GET http://ok.example/ HTTP/1.1\r\nHost : ok.example\r\n\r\n", "bad_request"},
		"http 2":             {"GET http://ok.example/ HTTP/2.0\r\nHost: ok.example\r\n\r\n", "bad_request"},
		"a long head":        {"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nX: " + strings.Repeat("x", 70000) + "\r\n\r\n", "bad_request"},
		"binary":             {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "bad_request"},
		"nothing":            {"\r\n\r\n", "bad_request"},
	} {
		got := c.raw(row.request)
		if r := c.refusal(); r.Verdict != row.want {
			t.Errorf("%s: %+v, answer %.200q", name, r, got)
		} else if !strings.HasPrefix(got, "HTTP/1.1 4") {
			t.Errorf("%s: answer %.200q", name, got)
		}
	}
	if got := append(world.heard("93.184.215.10:80"), world.heard("93.184.215.11:80")...); len(got) != 0 {
		t.Errorf("the hosts received %q", got)
	}
	smuggle(t, c)
}

// smuggle sends a second request behind the first: it goes nowhere.
func smuggle(t *testing.T, c *command) {
	second := "GET http://evil.example/stolen HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	for name, request := range map[string]string{
		"pipelined":     "GET http://ok.example/one HTTP/1.1\r\nHost: ok.example\r\n\r\n" + second,
		"behind a body": "POST http://ok.example/one HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 3\r\n\r\nabc" + second,
		"behind chunks": "POST http://ok.example/one HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + second,
		"upgrade": "GET http://ok.example/one HTTP/1.1\r\nHost: ok.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
			"Proxy-Authorization: Basic eDp5\r\n\r\n" + second,
	} {
		got := c.raw(request)
		if !strings.Contains(got, "/one") || strings.Contains(got, "stolen") {
			t.Errorf("%s: %q", name, got)
		}
		all := fmt.Sprintf("%q", world.heard("93.184.215.10:80"))
		if strings.Contains(all, "stolen") || strings.Contains(all, "Proxy-") || strings.Contains(all, "pgrade") || strings.Count(all, "HTTP/1.1") != 1 {
			t.Errorf("%s: the host received %s", name, all)
		}
	}
	if got := world.heard("93.184.215.11:80"); len(got) != 0 {
		t.Errorf("the other host received %q", got)
	}
}
