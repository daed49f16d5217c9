// Package token makes, hashes and checks the bearer tokens of an installation.
//
// A token is read from a file or from standard input, never from the command
// line, where every process of the machine could read it. Only "new" prints
// one, and only when asked.
package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sallyport-dev/sallyport/sandboxd/shared"
)

// Usage is the help text of the command.
const Usage = `usage: sandboxd token new [-print] [FILE]
       sandboxd token hash [FILE]
       sandboxd token check [-sha256 HEX] FILE

new    makes a random token of 256 bits. FILE is created with mode 0600 and is
       never overwritten. The token is printed with -print only.
hash   prints the SHA-256 of the token in FILE, or on standard input, in hex:
       the value of "sha256" in the middleware's "tokens".
check  says whether FILE is fit for use: its mode, its length, its characters
       and, with -sha256, whether it is the token of that hash. Exit code 1 if not.

A token file holds the token and at most one newline.
`

// Main runs "sandboxd token" and returns its exit code: 0, 1 when a token could
// not be made or is not fit for use, 2 for a mistake on the command line.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	c := command{stdin: os.Stdin, stdout: stdout, stderr: stderr}
	if len(args) == 0 {
		return c.usage("say what to do: new, hash or check")
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "new":
		return c.create(rest)
	case "hash":
		return c.hash(rest)
	case "check":
		return c.check(rest)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, Usage)
		return 0
	default:
		return c.usage("the verbs are new, hash and check") // the argument is not repeated: it may be a token
	}
}

type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (c command) create(args []string) int {
	var show bool
	names, code := c.parse("new", args, 1, func(f *flag.FlagSet) {
		f.BoolVar(&show, "print", false, "print the token on standard output")
	})
	if code >= 0 {
		return code
	}
	if len(names) == 0 && !show {
		return c.usage("name a FILE for the token, or ask for it with -print")
	}
	secret := random()
	if len(names) == 1 {
		if err := save(names[0], secret); err != nil {
			return c.fail(err)
		}
		fmt.Fprintf(c.stderr, "token saved in %s (mode 0600)\n", names[0])
	}
	if show {
		fmt.Fprintln(c.stdout, secret)
	}
	return 0
}

func (c command) hash(args []string) int {
	names, code := c.parse("hash", args, 1, nil)
	if code >= 0 {
		return code
	}
	secret, err := c.read(names)
	if err != nil {
		return c.fail(err)
	}
	sum := sha256.Sum256([]byte(secret))
	fmt.Fprintln(c.stdout, hex.EncodeToString(sum[:]))
	return 0
}

func (c command) check(args []string) int {
	var want string
	names, code := c.parse("check", args, 1, func(f *flag.FlagSet) {
		f.StringVar(&want, "sha256", "", "the hash that the token must have, in hex")
	})
	if code >= 0 {
		return code
	}
	if len(names) == 0 {
		return c.usage("name the FILE to check")
	}
	wanted, err := hex.DecodeString(want)
	if err != nil || (want != "" && len(wanted) != sha256.Size) {
		return c.usage("-sha256 takes 64 hex digits")
	}
	secret, err := c.read(names)
	if err != nil {
		return c.fail(err)
	}
	if err := private(names[0]); err != nil {
		return c.fail(err)
	}
	sum := sha256.Sum256([]byte(secret))
	if want != "" && subtle.ConstantTimeCompare(sum[:], wanted) != 1 {
		return c.fail(errors.New("the file holds another token than the one of that hash"))
	}
	fmt.Fprintf(c.stdout, "ok: %s holds a token of %d characters that only its owner can read\n", names[0], len(secret))
	return 0
}

// parse reads flags and at most max names. A code of 0 or more ends the command.
func (c command) parse(verb string, args []string, max int, define func(*flag.FlagSet)) ([]string, int) {
	flags := flag.NewFlagSet("sandboxd token "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its messages repeat arguments, and one of them may be a token
	if define != nil {
		define(flags)
	}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(c.stdout, Usage)
		return nil, 0
	}
	if err != nil {
		return nil, c.usage("token %s does not know one of these flags", verb)
	}
	if flags.NArg() > max {
		return nil, c.usage("token %s takes one FILE, after the flags", verb)
	}
	return flags.Args(), -1
}

func (c command) read(names []string) (string, error) {
	if len(names) == 0 || names[0] == "-" {
		return read(c.stdin)
	}
	return shared.ReadToken(names[0])
}

func (c command) usage(format string, args ...any) int {
	fmt.Fprintf(c.stderr, "sandboxd token: "+format+"\n\n%s", append(args, Usage)...)
	return 2
}

func (c command) fail(err error) int {
	// The argument is not repeated where no such file exists: it may be a token.
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such file or folder. The argument names a file; a token never belongs on a command line")
	}
	fmt.Fprintf(c.stderr, "sandboxd token: %v\n", err)
	return 1
}
