// Command sallyport-dockerproxy is the only process that holds the Docker socket. The
// hub asks it, over a unix socket, for the servers of mcp.json by name; every
// byte that reaches the daemon is derived here.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/internal/cli"
)

const name = "sallyport-dockerproxy"

const usage = `usage: sallyport-dockerproxy [serve]

settings (environment)
  CONFIG_PATH            /config/mcp.json        the servers
  LISTEN_SOCKET          /run/proxy/docker.sock  where the hub connects
  DOCKER_SOCKET          /var/run/docker.sock    the daemon
  SANDBOX_SECRETS_DIR    /run/secrets            <secretsFrom>.env files
  SANDBOX_SECRETS_WATCH  true                    restart a server whose secrets change
  FORBIDDEN_SOURCES      (required)              host paths of workspace and installation, or none
  SOCKET_MODE            0660                    of LISTEN_SOCKET; never for everyone
  HUB_UID                (own uid)               the only user id that is served
  INSTANCE               sallyport               owner label; [a-z0-9]{1,16}
`

func main() { program.Main() }

var program = cli.Program{
	Name:  name,
	Intro: "Creates exactly the containers that mcp.json describes.",
	Start: "Without a command it serves. docs/dockerproxy.md.",
	Commands: []cli.Command{
		{Name: "serve", Help: "serve the hub, until SIGTERM (the default)",
			Main: cli.Service(name, usage, readSettings, serve)},
		{Name: "health", Help: "ask the serving one; exit 0 if it answers",
			Main: cli.Service(name+" health", "usage: "+name+" health\n\nTakes the settings of serve.\n", readSettings,
				health)},
	},
	Default: "serve",
	Aliases: map[string]string{"healthcheck": "health"}, // version 0.1
}

// serve runs the proxy until ctx ends and its containers are gone.
func serve(ctx context.Context, s settings, _ io.Writer, log *slog.Logger) error {
	p := &proxy{settings: s, log: log, docker: newDaemon(s.dockerSocket), held: map[string]*lease{}}
	var err error
	if p.policy, err = loadPolicy(s); err != nil {
		return err
	}
	p.logPolicy()
	if err := p.docker.negotiate(ctx); err != nil {
		return err
	}
	listener, err := listen(s)
	if err != nil {
		return err
	}
	if err := p.reap(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	go p.watch(ctx)
	log.Info("listening", "socket", s.listenSocket, "instance", s.instance, "hubUID", s.hubUID, "api", p.docker.api())
	return p.accept(ctx, listener)
}

// health is the command: the handshake of a hub. A proxy that refuses our uid is
// alive as well.
func health(_ context.Context, s settings, _ io.Writer, _ *slog.Logger) error {
	c, err := net.DialTimeout("unix", s.listenSocket, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	fmt.Fprintf(c, "{\"verb\":%q,\"version\":%d}\n", wire.VerbPolicy, wire.Version)
	var reply wire.Reply
	line, err := bufio.NewReader(io.LimitReader(c, 1<<20)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &reply)
	}
	if err == nil && !reply.OK && reply.Code != wire.CodeDenied {
		err = errors.New(reply.Error)
	}
	return err
}
