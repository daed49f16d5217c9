package login_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// chromium is one real browser, headless.
type chromium struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	wrong    []string // violations of the policy, errors of scripts
	followed []string // where pages navigated to by themselves or by a link
}

func newChromium(t *testing.T) *chromium {
	t.Helper()
	bin := rig.NeedCommand(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(bin), chromedp.NoSandbox, chromedp.Flag("ignore-certificate-errors", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(rig.Deadline))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := context.WithTimeout(ctx, rig.Deadline)
	tab, closeTab := chromedp.NewContext(ctx)
	c := &chromium{Context: tab, t: t}
	t.Cleanup(func() { closeTab(); cancel(); stop() })
	if err := chromedp.Listen(tab, c.event); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *chromium) event(ev any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ev := ev.(type) {
	case *cdplog.EventEntryAdded:
		if ev.Entry.Source == cdplog.EntrySourceSecurity || strings.Contains(ev.Entry.Text, "Content Security Policy") {
			c.wrong = append(c.wrong, ev.Entry.Text)
		}
	case *cdpruntime.EventExceptionThrown:
		c.wrong = append(c.wrong, ev.ExceptionDetails.Text)
	case *page.EventFrameRequestedNavigation:
		c.followed = append(c.followed, ev.URL)
	}
}

func (c *chromium) run(steps ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	for i, step := range steps {
		ctx, cancel := context.WithTimeout(c, rig.Deadline/4)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			text, _ := chromedp.Run(c, chromedp.Text("body"))
			c.t.Fatalf("step %d: %v (%v) at %s", i, err, c.wrong, text)
		}
	}
}

// got runs an action and returns its result.
func got[T any](c *chromium, action chromedp.Action[T]) T {
	c.t.Helper()
	value, err := chromedp.Run(c, action)
	if err != nil {
		c.t.Fatalf("%v (%v)", err, c.wrong)
	}
	return value
}

// call sends a command of the protocol.
func call[P, R any](c *chromium, cmd cdp.Command[P, R], params P) R {
	c.t.Helper()
	value, err := chromedp.Call(c, cmd, params)
	if err != nil {
		c.t.Fatal(err)
	}
	return value
}

// clean fails the test for every violation so far.
func (c *chromium) clean(at string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.wrong {
		c.t.Errorf("%s: %s", at, text)
	}
	c.wrong = nil
}

func (c *chromium) text() string {
	c.t.Helper()
	return got(c, chromedp.Text("main"))
}

// accessible runs axe-core on the page at 360 pixels, in light and dark, and looks
// whether it has to be scrolled sideways. With LOGIN_SCREENSHOTS it keeps pictures.
func (c *chromium) accessible(name string) {
	c.t.Helper()
	axe, err := os.ReadFile(filepath.Join(rig.NPM(c.t, "browser"), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		c.run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
		call(c, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		got(c, chromedp.Evaluate[int](string(axe)+";0"))
		found := got(c, chromedp.Evaluate[string](
			`axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html)])))`, chromedp.EvalAwaitPromise))
		wide := got(c, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
		if found != "[]" || wide {
			c.t.Errorf("%s, %s: too wide %v, axe %s", name, scheme, wide, found)
		}
		if dir := os.Getenv("LOGIN_SCREENSHOTS"); dir != "" {
			raw := got(c, chromedp.FullScreenshot(100))
			if err := os.WriteFile(filepath.Join(dir, "login-"+name+"-"+scheme+".png"), raw, 0o644); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	call(c, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	c.run(chromedp.EmulateViewport(1000, 900))
}

// landings is a client's web server: what browsers bring it.
func landings(t *testing.T, secure bool) (at string, got chan url.Values) {
	t.Helper()
	got = make(chan url.Values, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			got <- r.URL.Query()
		}
	}))
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return strings.SplitAfter(server.URL, "://")[0] + "localhost:" + port + "/callback", got
}

// await is the next visit of a browser to a client.
func await(t *testing.T, landed chan url.Values) url.Values {
	t.Helper()
	select {
	case q := <-landed:
		return q
	case <-time.After(rig.Deadline / 3):
		t.Fatal("the browser did not come back")
		return nil
	}
}

// register returns the authorization URL of a client that registered redirect.
func (s *stand) register(t *testing.T, name string, registered, used string) string {
	t.Helper()
	raw, _ := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{registered}})
	code, _, body := send(t, insecure(), "POST", s.issuer+"/register", string(raw), "Content-Type", "application/json")
	var made struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || code != 201 {
		t.Fatalf("registering: %d %s", code, body)
	}
	return s.issuer + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {made.ID}, "redirect_uri": {used}, "state": {"s&t=ate"}, "scope": {"mcp"}, "resource": {s.sandbox},
		"code_challenge": {strings.Repeat("A", 43)}, "code_challenge_method": {"S256"},
	}.Encode()
}

// The page after consent brings a browser back to https, to loopback and to an app, with
// nothing refused by the policy.
func TestChromiumReturns(t *testing.T) {
	s := newStand(t, nil)
	c := newChromium(t)
	c.run(chromedp.Navigate(s.issuer))
	c.accessible("sign-in")
	c.run(chromedp.SendKeys("#password", password+kb.Enter), chromedp.WaitVisible("//h2[text()='Connected clients']"))
	c.clean("signing in")
	secure, gotSecure := landings(t, true)
	plain, gotPlain := landings(t, false)
	for name, way := range map[string]struct {
		registered, used string
		got              chan url.Values
	}{
		"https":    {secure, secure, gotSecure},
		"loopback": {"http://localhost/callback", plain, gotPlain},
	} {
		c.run(chromedp.Navigate(s.register(t, "A client", way.registered, way.used)), chromedp.WaitVisible("button[value=allow]"))
		c.accessible("consent-" + name)
		c.clean(name + ": consent")
		c.run(chromedp.Click("#mine"), chromedp.Click("button[value=allow]"))
		if q := await(t, way.got); q.Get("code") == "" || q.Get("state") != "s&t=ate" || q.Get("iss") != s.issuer {
			t.Errorf("%s: %v", name, q)
		}
		c.clean(name)
	}
	c.run(chromedp.Navigate(s.register(t, "A client", secure, secure)), chromedp.WaitVisible("button[value=deny]"), chromedp.Click("button[value=deny]"))
	if q := await(t, gotSecure); q.Get("error") != "access_denied" || q.Get("iss") != s.issuer {
		t.Errorf("denied: %v", q)
	}
	c.run(chromedp.Navigate(strings.Replace(s.register(t, "A client", secure, secure), "S256", "plain", 1)), chromedp.WaitVisible("main"))
	c.accessible("fault")
	c.clean("fault")
	// The last, since Chromium then asks whether to open the app, and takes no click meanwhile.
	cursor := "cursor://anysphere.cursor-mcp/oauth/callback"
	c.run(chromedp.Navigate(s.register(t, "Cursor", cursor, cursor)), chromedp.WaitVisible("button[value=allow]"))
	c.accessible("consent-cursor")
	c.run(chromedp.Click("#mine"), chromedp.Click("button[value=allow]"), chromedp.WaitVisible("a.button"))
	link := got(c, chromedp.AttributeValue("a.button", "href")).Value
	c.accessible("return")
	rig.Until(t, "Chromium to follow to the app", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, to := range c.followed {
			if strings.HasPrefix(to, cursor+"?code=") {
				return true
			}
		}
		return false
	}, s.login)
	if !strings.HasPrefix(link, cursor+"?code=") {
		t.Errorf("the link is %s", link)
	}
	c.clean("cursor")
}

// By keyboard alone: sign in, untick, allow.
func TestChromiumKeyboard(t *testing.T) {
	s := newStand(t, nil)
	c := newChromium(t)
	secure, landed := landings(t, true)
	at := s.register(t, "A client", secure, secure)
	c.run(chromedp.Navigate(at), chromedp.WaitVisible("#password"))
	var focus string
	step := func(key string) {
		c.run(chromedp.KeyEvent(key))
		focus = got(c, chromedp.Evaluate[string](`document.activeElement.id || document.activeElement.value`))
	}
	step(kb.Tab)
	if focus != "password" {
		t.Fatalf("the first stop is %q", focus)
	}
	c.run(chromedp.KeyEvent(password+kb.Enter), chromedp.WaitVisible("button[value=allow]"))
	var stops []string
	for range 10 {
		step(kb.Tab)
		stops = append(stops, focus)
		if focus == "run_command" || focus == "mine" {
			c.run(chromedp.KeyEvent(" "))
		}
		if focus == "allow" {
			c.run(chromedp.KeyEvent(kb.Enter))
			break
		}
	}
	if want := "[run_command read_file write_file days mine allow]"; fmt.Sprint(stops) != want {
		t.Errorf("stops %v, not %s", stops, want)
	}
	if q := await(t, landed); q.Get("code") == "" {
		t.Errorf("%v", q)
	}
	if list := s.verb(t, "", "clients"); !strings.Contains(list, "A client") {
		t.Errorf("%s", list)
	}
	c.clean("keyboard")
}

// A passkey: registered on the first start, then used to sign in and for each consent
// where the host is shared. With a signature that is not the authenticator's it is refused.
func TestChromiumPasskey(t *testing.T) {
	s := newStand(t, func(config map[string]any) { config["ownHost"] = false })
	c := newChromium(t)
	authenticator := func() webauthn.AuthenticatorID {
		return call(c, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}}).AuthenticatorID
	}
	call(c, webauthn.Enable, webauthn.EnableParams{})
	id := authenticator()
	c.run(chromedp.Navigate(s.issuer), chromedp.SendKeys("#password", password+kb.Enter),
		chromedp.WaitVisible("#confirm"), chromedp.SendKeys("#name", "Laptop"), chromedp.SendKeys("#confirm", password),
		chromedp.Click("button[value=passkey]"), chromedp.WaitVisible("//p[text()='The passkey is added.']"))
	if text := c.text(); !strings.Contains(text, "Laptop, since") {
		t.Errorf("not listed: %s", text)
	}
	c.accessible("home")
	c.clean("registering")
	secure, landed := landings(t, true)
	c.run(chromedp.Click("button[value=out]"), chromedp.WaitVisible("//h1[text()='Sign in to Sallyport']"))
	c.run(chromedp.Navigate(s.register(t, "A client", secure, secure)), chromedp.WaitVisible("button[data-kind=get]"), chromedp.Click("button[data-kind=get]"),
		chromedp.WaitVisible("button[value=allow][data-kind=get]"))
	c.accessible("consent-passkey")
	c.run(chromedp.Click("button[value=allow][data-kind=get]"))
	if q := await(t, landed); q.Get("code") == "" {
		t.Errorf("%v", q)
	}
	c.clean("with a passkey")
	// The same authenticator with a signature that is not its own.
	c.run(chromedp.Navigate(s.issuer), chromedp.WaitVisible("button[value=out]"), chromedp.Click("button[value=out]"), chromedp.WaitVisible("//h1[text()='Sign in to Sallyport']"))
	bogus := true
	call(c, webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{AuthenticatorID: id, IsBogusSignature: &bogus})
	c.run(chromedp.Click("button[data-kind=get]"), chromedp.WaitVisible("p.error"))
	if text := c.text(); !strings.Contains(text, "not the owner's") {
		t.Errorf("a bogus signature: %s", text)
	}
}
