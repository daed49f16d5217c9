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
	"slices"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// Usage is the help text of the command.
const Usage = `usage: sallyport token new [-print] [FILE]
       sallyport token key FILE
       sallyport token hash [FILE]
       sallyport token check [-sha256 HEX] FILE

new    makes a random token of 256 bits. FILE is created with mode 0600 and is
       never overwritten. The token is printed with -print only.
key    makes the key of an owner's or an egress socket, 64 hex digits, in a new
       FILE of mode 0600.
hash   prints the SHA-256 of the token in FILE, or on standard input, in hex:
       the value of "sha256" in the middleware's "tokens".
check  says whether FILE is fit for use: its mode, its length, its characters
       and, with -sha256, whether it is the token of that hash. Exit code 1 if not.

A token file holds the token and at most one newline.
`

// Main runs "sallyport token" and returns its exit code: 0, 1 when a token could
// not be made or is not fit for use, 2 for a mistake on the command line.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	c := command{stdin: os.Stdin, stdout: stdout, stderr: stderr}
	var show bool
	var want string
	flags := flag.NewFlagSet("sallyport token", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its messages repeat arguments, and one of them may be a token
	flags.BoolVar(&show, "print", false, "")
	flags.StringVar(&want, "sha256", "", "")
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	err := flags.Parse(args[min(len(args), 1):])
	name := flags.Arg(0)
	switch {
	case errors.Is(err, flag.ErrHelp) || slices.Contains([]string{"help", "-h", "-help", "--help"}, verb):
		fmt.Fprint(stdout, Usage)
		return 0
	case err != nil || flags.NArg() > 1 || show && verb != "new" || want != "" && verb != "check":
		return c.usage("one FILE at most, after the flags that belong to the verb")
	case verb == "new":
		return c.create(name, show)
	case verb == "key":
		return c.key(name)
	case verb == "hash":
		return c.hash(name)
	case verb == "check":
		return c.check(name, want)
	}
	return c.usage("say what to do: new, key, hash or check")
}

type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// key makes the key of an owner's or egress's socket.
func (c command) key(name string) int {
	if name == "" {
		return c.usage("name a FILE for the key")
	}
	if err := keysocket.Create(name); err != nil {
		fmt.Fprintln(c.stderr, "sallyport token:", err)
		return 1
	}
	fmt.Fprintf(c.stdout, "Made %s.\n", name)
	return 0
}

func (c command) create(name string, show bool) int {
	if name == "" && !show {
		return c.usage("name a FILE for the token, or ask for it with -print")
	}
	secret := random()
	if name != "" {
		if err := save(name, secret); err != nil {
			return c.fail(err)
		}
		fmt.Fprintf(c.stderr, "token saved in %s (mode 0600)\n", name)
	}
	if show {
		fmt.Fprintln(c.stdout, secret)
	}
	return 0
}

func (c command) hash(name string) int {
	secret, err := c.read(name)
	if err != nil {
		return c.fail(err)
	}
	sum := sha256.Sum256([]byte(secret))
	fmt.Fprintln(c.stdout, hex.EncodeToString(sum[:]))
	return 0
}

func (c command) check(name, want string) int {
	wanted, err := hex.DecodeString(want)
	if name == "" || err != nil || want != "" && len(wanted) != sha256.Size {
		return c.usage("name the FILE to check; -sha256 takes 64 hex digits")
	}
	secret, err := c.read(name)
	if err == nil {
		err = private(name)
	}
	sum := sha256.Sum256([]byte(secret))
	if err == nil && want != "" && subtle.ConstantTimeCompare(sum[:], wanted) != 1 {
		err = errors.New("the file holds another token than the one of that hash")
	}
	if err != nil {
		return c.fail(err)
	}
	fmt.Fprintf(c.stdout, "ok: %s holds a token of %d characters that only its owner can read\n", name, len(secret))
	return 0
}

func (c command) read(name string) (string, error) {
	if name == "" || name == "-" {
		return read(c.stdin)
	}
	return config.ReadToken(name)
}

func (c command) usage(why string) int {
	fmt.Fprintf(c.stderr, "sallyport token: %s; see sallyport token -h\n", why)
	return 2
}

func (c command) fail(err error) int {
	// The argument is not repeated where no such file exists: it may be a token.
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such file or folder. The argument names a file; a token never belongs on a " +
			"command line")
	}
	fmt.Fprintf(c.stderr, "sallyport token: %v\n", err)
	return 1
}
