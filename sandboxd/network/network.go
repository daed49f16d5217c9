// Package network gives commands their way to the allowed hosts: a listener in
// the command's own network, carried to egress, and the environment that makes
// programs use it. It decides nothing; egress does.
package network

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// Address is where a command finds its proxy. Each has a network of its own, so
// that all may use the same one, and configuration files may name it.
const Address = "127.0.0.1:3128"

// maxNotices bounds the refusals that one result shows.
const maxNotices = 20

// A Way is one command's. The zero value and nil lead nowhere.
type Way struct {
	client  *egresswire.Client
	command egresswire.Command

	mu     sync.Mutex
	told   []string
	beyond int
	past   int  // connections and DNS queries that did not use the proxy
	failed bool // the command, with any of these
}

// New is the way of one command through client.
func New(client *egresswire.Client, command egresswire.Command) *Way {
	return &Way{client: client, command: command}
}

// Listen opens the proxy's listener in the network of the calling thread, and
// serves it until it is closed. It is for jail.Command.Listen.
func (w *Way) Listen() (io.Closer, error) {
	l, err := net.Listen("tcp4", Address)
	if err != nil {
		return nil, fmt.Errorf("the proxy's listener: %w", err)
	}
	return closer{w, w.client.Open(l, w.command, w.tell), openPast()}, nil
}

// closer ends one command's way.
type closer struct {
	way     *Way
	carried *egresswire.Way
	past    past
}

func (c closer) Close() error {
	c.carried.Close()
	n := c.past.count()
	c.past.close()
	c.way.mu.Lock()
	defer c.way.mu.Unlock()
	c.way.past = n
	return nil
}

// Failed says that the command has ended with an error. What it sent past its proxy
// may be the reason, which its result and egress are told then: programs that work
// ask for names too, as a server does for its own.
func (w *Way) Failed() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed = w.past > 0; w.failed {
		go w.client.Tell(egresswire.Past{Principal: w.command.Principal, Session: w.command.Session, ID: w.command.ID,
			Count: w.past})
	}
}

func (w *Way) tell(r egresswire.Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case slices.Contains(w.told, r.Say):
	case len(w.told) < maxNotices:
		w.told = append(w.told, r.Say)
	default:
		w.beyond++
	}
}

// Notices are what was refused, for the command's result: one sentence each, in
// the order of the first time, and at last what went past the proxy.
func (w *Way) Notices() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	notices := slices.Clone(w.told)
	if w.beyond > 0 {
		notices = append(notices, fmt.Sprintf("%d more connections were refused.", w.beyond))
	}
	if w.failed {
		notices = append(notices, pastNotice(w.past))
	}
	return notices
}

// Environ is env with what makes programs use the proxy. curl reads the small
// http_proxy only; Node reads any only with NODE_USE_ENV_PROXY (22.21, 24.5);
// Java, pip, cargo and npm have their own names.
func Environ(env []string) []string {
	const proxy, here = "http://" + Address, "localhost,127.0.0.1,::1"
	host, port, _ := strings.Cut(Address, ":")
	env = slices.Clone(env)
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"="+proxy, strings.ToUpper(name)+"="+proxy)
	}
	env = append(env, "no_proxy="+here, "NO_PROXY="+here, "NODE_USE_ENV_PROXY=1", "npm_config_proxy="+proxy,
		"npm_config_https_proxy="+proxy,
		"PIP_PROXY="+proxy, "CARGO_HTTP_PROXY="+proxy, "PIP_DISABLE_PIP_VERSION_CHECK=1",
		"npm_config_update_notifier=false",
		// Their retries are for networks that come back; a refused host does not.
		"npm_config_fetch_retries=1", "npm_config_fetch_retry_mintimeout=1000",
		"npm_config_fetch_retry_maxtimeout=3000", "PIP_RETRIES=1", "CARGO_NET_RETRY=1")
	java := fmt.Sprintf("-Dhttp.proxyHost=%s -Dhttp.proxyPort=%s -Dhttps.proxyHost=%s -Dhttps.proxyPort=%s "+
		"-Dhttp.nonProxyHosts=localhost|127.*|[::1]",
		host, port, host, port)
	for i, pair := range env {
		if old, ok := strings.CutPrefix(pair, "JAVA_TOOL_OPTIONS="); ok {
			env[i] = "JAVA_TOOL_OPTIONS=" + old + " " + java
			return env
		}
	}
	return append(env, "JAVA_TOOL_OPTIONS="+java)
}

// Describe tells a model what its commands may reach.
func Describe(rules []string) string {
	if len(rules) == 0 {
		return " The network is an allow-list, and no host is on yours: downloads and package installs fail. Ask the " +
			"owner for an egress rule if you need one."
	}
	hosts := strings.Join(rules, ", ")
	if slices.Equal(rules, []string{"*"}) {
		hosts = "the hosts of the owner's list (a refusal names what is missing)"
	}
	return " The network is an allow-list: through the proxy in the environment, commands reach " + hosts +
		" by HTTPS (rules with http:// by HTTP) and nothing else; no DNS, no UDP, no ssh. " +
		"Loopback is the command's own: a server and its client must run in one command. " +
		"A refused host stands in the result's notices with the rule to ask the owner for; do not retry it."
}
