package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/egress/proxy"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/owner/hosts"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

// errEgress marks a mistake in what -egress names.
var errEgress error = &cli.Fault{Code: 2, Text: "-egress"}

// egressFiles are those of egress and of the sandbox's way to it; none without
// -egress.
func (o options) egressFiles() map[string]string {
	if o.egress == "" {
		return nil
	}
	return map[string]string{
		"EGRESS_AUDIT_FILE":   filepath.Join(o.state(), "audit", "egress", "audit.jsonl"),
		"MCP_EGRESS_SOCKET":   filepath.Join(o.state(), "run", "egress", "egress.sock"),
		"MCP_EGRESS_KEY_FILE": filepath.Join(o.state(), "egress", "key"),
	}
}

// ceiling asks the tools that -egress names for their hosts.
func (o options) ceiling(ctx context.Context, log *slog.Logger) (egressrule.List, error) {
	if o.egress == "" {
		return nil, nil
	}
	rules, notes, err := hosts.Expand(ctx, strings.FieldsFunc(o.egress,
		func(r rune) bool { return r == ',' || r == ' ' }))
	for _, n := range notes {
		log.Warn(n)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEgress, err)
	}
	return egressrule.ParseList(rules, egressrule.ParseCeiling)
}

// giveEgress gives the folders of egress to the owner of the workspace, whom
// this process becomes. Before, the workspace itself may have been root's.
func (o options) giveEgress(set serve.Settings) error {
	var names []string
	for _, path := range o.egressFiles() {
		for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
			names = append(names, dir)
			if dir == o.state() || dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return giveTo(set.Workspace, names...)
}

// serveEgress serves commands until the function that it returns is called.
func (o options) serveEgress(ctx context.Context, set serve.Settings, ceiling egressrule.List,
	log *slog.Logger) (stop func(), err error) {
	if len(ceiling) == 0 {
		return func() {}, nil
	}
	record, err := audit.Open(audit.Options{File: o.egressFiles()["EGRESS_AUDIT_FILE"], Version: process.Version,
		Log: log})
	if err != nil {
		return nil, err
	}
	l, err := keysocket.Listen(set.EgressSocket, 0o600)
	if err != nil {
		return nil, errors.Join(err, record.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server := proxy.Server{Ceiling: ceiling, Place: "EGRESS of make run (-egress)", Audit: record}
		if err := server.Run(ctx, l, set.EgressKey.Sum()); err != nil {
			log.Error("egress", "error", err)
		}
	}()
	log.Info("commands reach listed hosts", "rules", ceiling.Texts())
	return func() {
		cancel()
		<-done
		record.Close()
	}, nil
}
