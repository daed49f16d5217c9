// Package health is the command `health` of the servers: a container's health check
// that needs neither a shell nor curl in the image.
package health

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// wait is how long the server may take to answer.
const wait = 3 * time.Second

// Command returns the command `health` of the binary name, whose server listens on
// addr unless the environment's variable, such as MCP_ADDR, says otherwise. It asks for /healthz and returns 0 for a
// 200, 1 for anything else and 2 for bad usage.
func Command(name, variable, addr string) func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		usage := "usage: " + name + " health\n\nAsks the server at " + variable + " (" + addr +
			") for /healthz; exit code 0 if it answers 200."
		if len(args) == 1 && args[0] == "-h" {
			fmt.Fprintln(stdout, usage)
			return 0
		}
		if len(args) > 0 {
			fmt.Fprintln(stderr, usage)
			return 2
		}
		if err := ask(ctx, cmp.Or(os.Getenv(variable), addr)); err != nil {
			fmt.Fprintf(stderr, "%s health: %v\n", name, err)
			return 1
		}
		fmt.Fprintln(stdout, "ok")
		return 0
	}
}

func ask(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the address to ask: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	url := "http://" + net.JoinHostPort(host, port) + "/healthz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// No proxy: HTTP_PROXY of the container must not answer for the server.
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
