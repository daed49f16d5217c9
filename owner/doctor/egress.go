package doctor

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

const (
	egressSocket = ".sallyport/run/egress/egress.sock"
	egressKey    = ".sallyport/egress/key"
)

// egress asks the egress of the installation in the working directory, where
// there is one, for what its ceiling does to the rules of traefik-dynamic.yml,
// and whether their names have usable addresses.
func (w *walk) egress() {
	_, err := os.Lstat(egressSocket)
	if err != nil && !envAllows() {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	if err := keysocket.RefusesStrangers(ctx, egressSocket); err != nil &&
		strings.Contains(err.Error(), "without its key") {
		w.found("egress", "egress-open", "%v", err)
		return
	}
	key, err := keysocket.ReadKey(egressKey)
	if errors.Is(err, os.ErrPermission) {
		w.unseen("egress", egressKey+" belongs to another account")
		return
	}
	client := &egresswire.Client{Socket: egressSocket, Key: key}
	if err == nil {
		err = w.egressRules(ctx, client)
	}
	if err != nil {
		w.found("egress", "egress-down", "%v", err)
	}
}

// egressRules checks the rules of the tokens, and the ceiling's own.
func (w *walk) egressRules(ctx context.Context, client *egresswire.Client) error {
	rules := tokenRules()
	first, err := client.Ask(ctx, egresswire.Check{Rules: rules})
	if err != nil {
		return err
	}
	w.ok("egress", "it refuses another key, answers with yours and allows at most %s",
		strings.Join(first.Ceiling, ", "))
	for i, wrong := range first.Checked {
		if wrong != "" {
			w.found("egress", "egress-narrow", "the rule %s of traefik-dynamic.yml: %s", rules[i], wrong)
		}
	}
	for _, p := range first.Past {
		w.found("egress", "proxy-ignored", "%d connections or DNS queries of a command of %s (%s, %s)", p.Count,
			p.Principal, p.ID, p.At.Format(time.DateTime))
	}
	var names []string
	for _, rule := range first.Ceiling {
		if rule = strings.TrimPrefix(rule, "private:"); !strings.Contains(rule, "*") {
			names = append(names, rule)
		}
	}
	second, err := client.Ask(ctx, egresswire.Check{Rules: names, Resolve: true})
	if err != nil {
		return err
	}
	for i, wrong := range second.Checked {
		if wrong != "" {
			w.found("egress", "egress-unresolvable", "%s: %s", names[i], wrong)
		}
	}
	return nil
}

var allows = regexp.MustCompile(`(?m)^EGRESS_ALLOW=.`)

func envAllows() bool {
	raw, err := os.ReadFile(".env")
	return err == nil && allows.Match(raw)
}

var egressList = regexp.MustCompile(`\begress:\s*\[([^\]]*)\]`)

// tokenRules are the rules of traefik-dynamic.yml, outside comments.
func tokenRules() (rules []string) {
	raw, err := os.ReadFile("traefik-dynamic.yml")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		line, _, _ := strings.Cut(line, "#")
		for _, m := range egressList.FindAllStringSubmatch(line, -1) {
			for rule := range strings.SplitSeq(m[1], ",") {
				if rule = strings.Trim(rule, ` "'`); rule != "" {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}
