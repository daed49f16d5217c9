// Package plan says what a compromised part could do on this host, from the
// files that decide it: the rendered compose file, Traefik's dynamic
// configuration and mcp.json. It starts nothing and asks no daemon.
//
// What it cannot read it reports as a mistake: a plan with a gap would be worse
// than none.
package plan

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/cli"
)

// Usage is the help text of the command.
const Usage = `usage: sallyport plan [flags]

Prints what a compromised edge, sandbox or hub could do on this host, and the
difference to the plan that was accepted last. Exit code 2 if it grew.

flags:
  -compose FILE    docker compose config --format json, - for standard input
                   (default: runs that command here)
  -edge FILE       Traefik's dynamic configuration (default traefik-dynamic.yml)
  -servers FILE    the hub's servers (default config/mcp.json, where there is one)
  -accepted FILE   the accepted plan (default .sallyport/plan.json)
  -accept          accept this plan
  -json            JSON instead of text
`

// Grant is one thing that a part could do. With an amount, more is more.
type Grant struct {
	Part   string `json:"part"` // edge, sandbox, hub, dockerproxy, token NAME, server NAME, jail ...
	What   string `json:"what"`
	Amount int64  `json:"amount,omitempty"`
}

// Plan is every grant, sorted and without repetition.
type Plan []Grant

type options struct {
	compose, edge, servers, accepted string
	accept, json                     bool
}

// Main runs "sallyport plan". It returns 1 where a file cannot be read with
// certainty, 2 when the plan grew and for a mistake on the command line.
var Main = cli.Tool("sallyport plan", Usage, parse,
	func(ctx context.Context, o options, stdout, _ io.Writer) (int, error) { return o.run(ctx, stdout) })

func parse(args []string) (o options, err error) {
	f := cli.Flags("sallyport plan")
	f.StringVar(&o.compose, "compose", "", "")
	f.StringVar(&o.edge, "edge", "traefik-dynamic.yml", "")
	f.StringVar(&o.servers, "servers", "", "")
	f.StringVar(&o.accepted, "accepted", ".sallyport/plan.json", "")
	f.BoolVar(&o.accept, "accept", false, "")
	f.BoolVar(&o.json, "json", false, "")
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = errors.New("it takes flags only")
	}
	return o, err
}

func (o options) run(ctx context.Context, stdout io.Writer) (int, error) {
	now, err := o.read(ctx)
	if err != nil {
		return 1, err
	}
	if o.accept {
		return 0, o.save(now, stdout)
	}
	var old Plan
	raw, err := os.ReadFile(o.accepted)
	known := err == nil
	if known {
		err = json.Unmarshal(raw, &old)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return 1, fmt.Errorf("the accepted plan %s: %w", o.accepted, err)
	}
	more, less := now.beyond(old), old.beyond(now)
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(map[string]any{"plan": now, "accepted": known, "more": append(Plan{}, more...),
			"less": append(Plan{}, less...)})
	} else {
		now.print(stdout)
		o.off(ctx, stdout)
		difference(stdout, known, more, less)
	}
	if known && grew(more, less) {
		return 2, err
	}
	return 0, err
}

// grew reports whether a part can do more. A line of the jail's policy that
// went away may have been a restriction, so it counts too.
func grew(more, less Plan) bool {
	return len(more) > 0 || slices.ContainsFunc(less, func(g Grant) bool { return g.Part == jailPart })
}

func (o options) read(ctx context.Context) (Plan, error) {
	raw, err := o.rendered(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := composePlan(raw)
	if err != nil {
		return nil, err
	}
	edge, err := os.ReadFile(o.edge)
	if err != nil {
		return nil, fmt.Errorf("Traefik's dynamic configuration: %w; name it with -edge", err)
	}
	if edge, err = evaluated(edge, raw); err != nil {
		return nil, fmt.Errorf("%s: %w", o.edge, err)
	}
	tokens, err := edgePlan(edge)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.edge, err)
	}
	plan = append(plan, tokens...)
	more, err := ownerPlan(raw, tokens, backends(edge))
	if err != nil {
		return nil, err
	}
	plan = append(plan, more...)
	name := cmp.Or(o.servers, "config/mcp.json") // as make env and docker-compose.yml have it
	servers, err := os.ReadFile(name)
	if err == nil {
		var more Plan
		if more, err = serversPlan(servers, plan); err == nil {
			plan = append(plan, more...)
		}
	} else if o.servers == "" && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.SortFunc(plan, func(a, b Grant) int {
		return cmp.Or(strings.Compare(a.Part, b.Part), strings.Compare(a.What, b.What), cmp.Compare(a.Amount, b.Amount))
	})
	return slices.Compact(plan), nil
}

func (o options) rendered(ctx context.Context) ([]byte, error) {
	switch o.compose {
	case "":
		cmd := exec.CommandContext(ctx, "docker", "compose", "config", "--format", "json")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		raw, err := cmd.Output()
		if err != nil && (errors.Is(err, exec.ErrNotFound) ||
			exec.CommandContext(ctx, "docker", "compose", "version").Run() != nil) {
			//nolint:staticcheck // a product's name
			return nil, errors.New("Docker Compose is not installed; plan reads the compose stack, not make run " +
				"(or name a rendered file with -compose)")
		}
		if err != nil {
			return nil, fmt.Errorf("docker compose config: %w\n%s(it needs Docker Compose 2.24 or newer and what "+
				"make env writes; or name a rendered file with -compose)", err, errs.String())
		}
		return raw, nil
	case "-":
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(o.compose)
}

// off names the services of the stack whose profiles are off: the plan does not
// have them. Only Compose knows, so a rendered file says nothing of it.
func (o options) off(ctx context.Context, out io.Writer) {
	services := func(args ...string) []string {
		names, _ := exec.CommandContext(ctx, "docker", append([]string{"compose"}, args...)...).Output()
		return strings.Fields(string(names))
	}
	if o.compose != "" {
		return
	}
	on := services("config", "--services")
	missing := slices.DeleteFunc(services("--profile", "*", "config", "--services"),
		func(name string) bool { return slices.Contains(on, name) })
	if slices.Sort(missing); len(on) > 0 && len(missing) > 0 {
		fmt.Fprintf(out, "\nNot in this plan, since their profiles are off: %s. COMPOSE_PROFILES=hub,dockerproxy "+
			"sallyport plan, say, shows them.\n", strings.Join(missing, ", "))
	}
}

func (o options) save(p Plan, stdout io.Writer) error {
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.accepted), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(o.accepted, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "accepted: %d grants, in %s\n", len(p), o.accepted)
	return nil
}

// beyond are the grants that old has not, or has less of.
func (p Plan) beyond(old Plan) (more Plan) {
	for _, g := range p {
		covered := func(o Grant) bool { return o.Part == g.Part && o.What == g.What && o.Amount >= g.Amount }
		if !slices.ContainsFunc(old, covered) {
			more = append(more, g)
		}
	}
	return more
}

func (p Plan) print(out io.Writer) {
	part := ""
	for _, g := range p {
		if kind, _, _ := strings.Cut(g.What, " "); g.Part == jailPart &&
			!slices.Contains([]string{"read", "write", "device", "limit"}, kind) {
			continue // what it takes away is long, and in the JSON
		}
		if g.Part != part {
			part = g.Part
			fmt.Fprintf(out, "%s could\n", map[bool]string{false: part,
				true: "a command of the sandbox"}[part == jailPart])
		}
		fmt.Fprintf(out, "  %s\n", g.text())
	}
}

func (g Grant) text() string {
	kind, what, _ := strings.Cut(g.What, " ")
	switch { // the jail's own words, after "could"
	case g.Part == jailPart && kind == "device":
		return "use the device " + what
	case g.Part == jailPart && kind == "limit":
		return "go up to the limit " + what
	}
	if g.Amount != 0 {
		return fmt.Sprintf("%s: %d", g.What, g.Amount)
	}
	return g.What
}

func difference(out io.Writer, known bool, more, less Plan) {
	switch {
	case !known:
		fmt.Fprint(out, "\nNo plan is accepted yet: sallyport plan -accept accepts this one.\n")
		return
	case len(more)+len(less) == 0:
		fmt.Fprint(out, "\nThe same as the accepted plan.\n")
		return
	}
	fmt.Fprint(out, "\nAgainst the accepted plan:\n")
	list(out, "+", more)
	list(out, "-", less)
}

// list shortens the jail's policy, whose lines mostly change together.
func list(out io.Writer, sign string, plan Plan) {
	rules := 0
	for _, g := range plan {
		if g.Part == jailPart {
			if rules++; rules > 5 {
				continue
			}
		}
		fmt.Fprintf(out, "%s %s: %s\n", sign, g.Part, g.text())
	}
	if rules > 5 {
		fmt.Fprintf(out, "%s %s: and %d more rules, see -json\n", sign, jailPart, rules-5)
	}
}
