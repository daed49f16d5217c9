package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/process"
)

func program() Program {
	say := func(text string) func(context.Context, []string, io.Writer, io.Writer) int {
		return func(_ context.Context, args []string, out, _ io.Writer) int {
			io.WriteString(out, text+" "+strings.Join(args, " "))
			return 0
		}
	}
	return Program{
		Name: "sandboxd", Intro: "An intro.", Start: "A start.",
		Commands: []Command{
			{Name: "serve", Help: "serve", Main: say("served")},
			{Name: "doctor", Help: "walk", Main: say("walked")},
			{Name: "token", Help: "tokens", Words: "new hash check", Main: say("token")},
		},
		Aliases: map[string]string{"walk": "doctor"},
		Moved:   map[string]string{"local": "make run"},
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args, fallback string
		code           int
		out, errs      string
	}{
		{"doctor -v x", "", 0, "walked -v x", ""},
		{"-addr x", "serve", 0, "served -addr x", ""},
		{"", "serve", 0, "served ", ""},
		{"", "", 2, "", "usage: sandboxd COMMAND"},
		{"local -x", "serve", 2, "", `"local" has moved: use make run`},
		{"frobnicate", "serve", 2, "", `there is no command "frobnicate"; sandboxd -h lists them` + "\n"},
		{"help frobnicate", "", 2, "", `there is no command "frobnicate"`},
		{"help doctor", "", 0, "walked -h", ""},
		{"--help", "", 0, "usage: sandboxd COMMAND", ""},
		{"version", "", 0, "sandboxd " + process.Version + " go", ""},
		{"docter", "serve", 2, "", `there is no command "docter"; did you mean "doctor"?`},
		{"--version", "", 0, "sandboxd " + process.Version + " go", ""},
		{"-h", "serve", 0, "usage: sandboxd [COMMAND]", ""},
		{"help", "serve", 0, "usage: sandboxd [COMMAND]", ""},
		{"version -h", "", 0, "usage: sandboxd COMMAND", ""},
		{"walk", "", 0, "walked ", ""},
		{"--version", "serve", 0, "sandboxd " + process.Version + " go", ""},
		{"version x", "", 2, "", "takes no arguments"},
		{"completion", "", 2, "", "name the shell"},
	} {
		p := program()
		p.Default = c.fallback
		var out, errs bytes.Buffer
		code := p.Run(t.Context(), strings.Fields(c.args), &out, &errs)
		if code != c.code || !strings.HasPrefix(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) {
			t.Errorf("%q: %d, stdout %q, stderr %q", c.args, code, out.String(), errs.String())
		}
	}
}

func TestHelpListsEveryCommand(t *testing.T) {
	var out bytes.Buffer
	program().usage(&out)
	for _, name := range strings.Fields(program().names()) {
		if !strings.Contains(out.String(), "  "+name+" ") {
			t.Errorf("help does not list %s", name)
		}
	}
}

// The script is tried in the shell that it is for, where that is installed.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, missing: bash")
	}
	var script bytes.Buffer
	if code := program().Run(t.Context(), []string{"completion", "bash"}, &script, &script); code != 0 {
		t.Fatal(script.String())
	}
	for line, want := range map[string]string{"sandboxd doc": "doctor", "sandboxd token ha": "hash", "sandboxd completion fi": "fish"} {
		fields := strings.Fields(line)
		ask := "COMP_WORDS=(" + line + "); COMP_CWORD=" + string(rune('0'+len(fields)-1)) + "; _sandboxd; echo \"${COMPREPLY[*]}\""
		out, err := exec.Command(bash, "-c", script.String()+ask).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
}

// The exit code is the same for every binary: 2 for the command line and the
// settings, a Fault's own, else 1; -h is none.
func TestCodes(t *testing.T) {
	var err error
	server := Server("s", func(w io.Writer) { io.WriteString(w, "usage: s") },
		func(args []string) (string, error) { f := Flags("s"); return "", f.Parse(args) },
		func(context.Context, string, io.Writer, *slog.Logger) error { return err })
	tool := Tool("t", "usage: t", func(args []string) (string, error) { f := Flags("t"); return "", f.Parse(args) },
		func(context.Context, string, io.Writer, io.Writer) (int, error) { return 0, err })
	service := Service("e", "usage: e", func(getenv func(string) string) (string, error) { return "", nil },
		func(context.Context, string, io.Writer, *slog.Logger) error { return err })
	for _, c := range []struct {
		args      string
		err       error
		code      int
		out, errs string
	}{
		{"", nil, 0, "", ""}, {"-h", nil, 0, "usage: ", ""}, {"--secret=x", nil, 2, "", "secret"}, {"", errors.New("no"), 1, "", ": no"},
		{"", fmt.Errorf("%w: no", &Fault{3, "jail"}), 3, "", ": jail: no"}, {"", Ended(126), 126, "", ""}, {"", Ended(0), 0, "", ""},
	} {
		err = c.err
		for _, main := range []Main{server, tool, service} {
			var out, errs bytes.Buffer
			code := main(t.Context(), strings.Fields(c.args), &out, &errs)
			if code != c.code || !strings.HasPrefix(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) || c.errs == "" && errs.Len() > 0 ||
				strings.Count(errs.String(), "\n") > 1 {
				t.Errorf("%q, %v: %d, stdout %q, stderr %q", c.args, c.err, code, out.String(), errs.String())
			}
		}
	}
}
