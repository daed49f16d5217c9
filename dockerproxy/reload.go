package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

const brokenSecrets = "ignoring broken secrets update, the old values stay"

// policy is one valid reading of mcp.json and of all secrets it names.
type policy struct {
	raw     string // mcp.json as read
	config  *mcpjson.Config
	secrets map[string]*secrets // by set
}

// loadPolicy reads everything; a set that is missing or wrong is an error.
func loadPolicy(s settings) (*policy, error) {
	raw, err := readConfig(s.configPath)
	if err != nil {
		return nil, err
	}
	n := &policy{raw: raw, secrets: map[string]*secrets{}}
	if n.config, err = mcpjson.Parse([]byte(raw)); err != nil {
		return nil, err
	}
	n.config.Forbid(s.forbidden)
	for _, e := range n.users() {
		set, err := readSet(s.secretsDir, e)
		if err != nil {
			return nil, err
		}
		n.secrets[e.Container.SecretsFrom] = set
	}
	return n, nil
}

func readConfig(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mcpjson.MaxFile+1))
	return string(data), err
}

// users are the entries that name a set, in order of name.
func (n *policy) users() []*mcpjson.Entry {
	var all []*mcpjson.Entry
	for _, name := range slices.Sorted(maps.Keys(n.config.Servers)) {
		if e := n.config.Servers[name]; e.Container.SecretsFrom != "" {
			all = append(all, e)
		}
	}
	return all
}

// readSet reads the entry's set, none of whose names may be in its env.
func readSet(dir string, e *mcpjson.Entry) (*secrets, error) {
	set, err := readSecrets(dir, e.Container.SecretsFrom)
	if err != nil {
		return nil, err
	}
	for key := range e.Env {
		if _, found := set.values[key]; found {
			return nil, fmt.Errorf("secrets %s.env: %s is also in the env of %s", e.Container.SecretsFrom, key, e.Name)
		}
	}
	return set, nil
}

func (p *proxy) logPolicy() {
	for name, err := range p.policy.config.Broken {
		p.log.Error("entry disabled", "server", name, "error", err.Error())
	}
	for name, e := range p.policy.config.Servers {
		if e.Type == mcpjson.Docker && len(e.Warnings) > 0 {
			p.log.Warn("entry", "server", name, "warnings", e.Warnings)
		}
	}
}

// watch polls, since neither file may be a file of its own (a mount, a
// symlink swap): what counts is content, once two readings agree. Between them
// lies the whole time, also on a busy machine, where a ticker would catch up.
func (p *proxy) watch(ctx context.Context) {
	poll, reap := time.NewTimer(p.poll), time.NewTicker(p.reapEvery)
	defer poll.Stop()
	defer reap.Stop()
	var last, said string
	for {
		select {
		case <-ctx.Done():
			return
		case <-reap.C:
			if err := p.reap(ctx); err != nil {
				p.log.Error("reaping", "error", err.Error())
			}
		case <-poll.C:
			seen := p.look()
			if seen == last && seen != said {
				said = seen
				p.reload()
			}
			last = seen
			poll.Reset(p.poll)
		}
	}
}

// look is a fingerprint of everything that is watched.
func (p *proxy) look() string {
	raw, err := readConfig(p.configPath)
	seen := fmt.Sprintf("%s\x00%v", raw, err)
	if !p.secretsWatch {
		return seen
	}
	p.mu.Lock()
	users := p.policy.users()
	p.mu.Unlock()
	for _, e := range users {
		set, err := readSet(p.secretsDir, e)
		if seen += fmt.Sprintf("\x00%v", err); err == nil {
			seen += set.print
		}
	}
	return seen
}

// reload takes over what is valid and ends the leases that it changes.
func (p *proxy) reload() {
	next, err := loadPolicy(p.settings)
	if raw, e := readConfig(p.configPath); err != nil && e == nil && raw == p.policy.raw {
		next = p.newSecrets() // the sets that are valid, and the others as they were
	} else if err != nil {
		p.log.Error("ignoring broken configuration, the last good one stays", "error", err.Error())
		return
	}
	p.mu.Lock()
	changed := next.raw != p.policy.raw
	p.policy = next
	for name, s := range p.held {
		if s.entry == nil {
			continue
		}
		e := next.config.Servers[name]
		set := next.secrets[s.entry.Container.SecretsFrom]
		if e == nil || e.Hash != s.entry.Hash {
			s.cancel(ended(wire.EndConfig))
		} else if p.secretsWatch && set != nil && s.secrets != "" && s.secrets != set.print {
			p.log.Info("secrets changed, ending the server", "server", name)
			s.cancel(ended(wire.EndSecrets))
		}
	}
	p.mu.Unlock()
	if changed {
		p.log.Info("configuration taken over")
		p.logPolicy()
	}
}

func (p *proxy) newSecrets() *policy {
	next := &policy{raw: p.policy.raw, config: p.policy.config, secrets: map[string]*secrets{}}
	for _, e := range next.users() {
		name := e.Container.SecretsFrom
		set, err := readSet(p.secretsDir, e)
		if err != nil {
			p.log.Error(brokenSecrets, "server", e.Name, "error", err.Error())
			set = p.policy.secrets[name]
		}
		next.secrets[name] = set
	}
	return next
}

// currentSecrets reads the entry's set anew: every container gets what the
// file says now. While an edit of it is broken the last good values stay; a
// file that is gone was taken away on purpose. p.mu is held.
func (p *proxy) currentSecrets(e *mcpjson.Entry) (*secrets, error) {
	name := e.Container.SecretsFrom
	if name == "" {
		return &secrets{}, nil
	}
	set, err := readSet(p.secretsDir, e)
	if old := p.policy.secrets[name]; err != nil && old != nil && !errors.Is(err, os.ErrNotExist) {
		p.log.Error(brokenSecrets, "server", e.Name, "error", err.Error())
		return old, nil
	}
	return set, err
}
