package login_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// One click is no consent where no password is asked for: a page that has the owner
// double-click closes its window after the first and has the second land on Allow.
// Without the tick that is asked for, the same click gives the grant.
func TestChromiumOneClickIsNoConsent(t *testing.T) {
	s := newStand(t, nil)
	c := newChromium(t)
	secure, landed := landings(t, true)
	c.run(chromedp.Navigate(s.register(t, "A client", secure, secure)), chromedp.WaitVisible("#password"))
	c.run(chromedp.SendKeys("#password", password+kb.Enter), chromedp.WaitVisible("button[value=allow]"))
	c.run(chromedp.Click("button[value=allow]"))
	if !got(c, chromedp.Evaluate[bool](`document.querySelector("#mine:invalid") !== null && document.activeElement.id === "mine"`)) {
		t.Error("one click is enough")
	}
	c.run(chromedp.Click("button[value=deny]"))
	if q := await(t, landed); q.Get("error") != "access_denied" {
		t.Errorf("denied without the tick: %v", q)
	}
	c.run(chromedp.Navigate(s.register(t, "A client", secure, secure)), chromedp.WaitVisible("button[value=allow]"))
	got(c, chromedp.Evaluate[bool](`(document.querySelector("#mine").required = false) === false`))
	c.run(chromedp.Click("button[value=allow]"))
	if q := await(t, landed); q.Get("code") == "" {
		t.Errorf("twin: %v", q)
	}
}
