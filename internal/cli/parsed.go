package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/sallyport-dev/sallyport/internal/process"
)

// Main is what a Command runs.
type Main = func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// A Fault is an error that ends the process with an exit code of its own: 2 for
// wrong usage or settings, 3 for a control that is not available.
type Fault struct {
	Code int
	Text string
}

// Error says what is wrong.
func (f *Fault) Error() string { return f.Text }

// Report prints an error after the command's name. It returns the exit code: 0
// without an error, that of a Fault, else 1.
func Report(stderr io.Writer, name string, err error) int {
	if err == nil {
		return 0
	}
	if err.Error() != "" {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	if f := (*Fault)(nil); errors.As(err, &f) {
		return f.Code
	}
	return 1
}

// Ended is the error of a process that has said all and ends with code.
func Ended(code int) error {
	if code == 0 {
		return nil
	}
	return &Fault{Code: code}
}

// Server makes the command that serves. parse reads arguments and environment;
// its flag.ErrHelp prints the usage, and every other mistake ends with 2.
func Server[S any](name string, usage func(io.Writer), parse func(args []string) (S, error),
	serve func(ctx context.Context, set S, stdout io.Writer, log *slog.Logger) error) Main {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		set, err := parse(args)
		if errors.Is(err, flag.ErrHelp) {
			usage(stdout)
			return 0
		}
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return 2
		}
		return Report(stderr, name, serve(ctx, set, stdout, process.NewLogger(stderr)))
	}
}

// Service makes a command of a server whose settings are environment variables
// alone, read with the function that is given to read.
func Service[S any](name, usage string, read func(getenv func(string) string) (S, error),
	serve func(ctx context.Context, set S, stdout io.Writer, log *slog.Logger) error) Main {
	return Server(name, func(w io.Writer) { io.WriteString(w, usage) }, func(args []string) (set S, err error) {
		if f := Flags(name); f.Parse(args) == flag.ErrHelp {
			return set, flag.ErrHelp
		}
		if len(args) > 0 {
			return set, fmt.Errorf("unexpected argument %q: settings are environment variables (-h lists them)",
				args[0])
		}
		return read(os.Getenv)
	}, serve)
}

// Tool makes a command that does one thing and ends. A mistake on the command line is
// one line, which a long usage would push off the screen; the exit code is 2.
func Tool[O any](name, usage string, parse func(args []string) (O, error),
	run func(ctx context.Context, opt O, stdout, stderr io.Writer) (int, error)) Main {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		opt, err := parse(args)
		if errors.Is(err, flag.ErrHelp) {
			io.WriteString(stdout, usage)
			return 0
		}
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v; see %[1]s -h\n", name, err)
			return 2
		}
		code, err := run(ctx, opt, stdout, stderr)
		return max(code, Report(stderr, name, err))
	}
}

// Flags are a FlagSet that prints nothing: the usage is the Tool's, and a message of the
// package would repeat an argument that may be a token.
func Flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}
