package attack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lifetime is how long a survivor lives, in seconds, should there be one.
const lifetime = 45

// sandbox attacks the sandbox behind the URL.
func (r *report) sandbox(ctx context.Context) error {
	t, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer t.session.Close()
	r.strangers(ctx)
	for _, a := range attempts {
		r.command(ctx, t, a)
	}
	r.canary(ctx, t)
	r.links(ctx, t)
	for i, a := range survivors {
		r.survivor(ctx, t, a, fmt.Sprintf("%d.%d", lifetime, 1000+i)+fmt.Sprint(os.Getpid()))
	}
	return nil
}

// strangers knock without a token, and with a wrong one.
func (r *report) strangers(ctx context.Context) {
	for name, token := range map[string]string{"a client without a token": "",
		"a client with a wrong token": strings.Repeat("x", 43)} {
		const hello = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		req, _ := http.NewRequestWithContext(ctx, "POST", r.opt.base.JoinPath("mcp").String(), strings.NewReader(hello))
		req.Header.Set("Content-Type", "application/json")
		res, err := r.client(token).Do(req)
		if err != nil {
			r.say(skipped, name, err.Error())
			continue
		}
		res.Body.Close()
		verdict := through
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusTooManyRequests {
			verdict = held
		}
		r.say(verdict, name, res.Status)
	}
}

func (r *report) command(ctx context.Context, t tools, a attempt) {
	out, err := t.run(ctx, installation()+prelude+strings.ReplaceAll(a.script, "NONCE", "sallyport-"+r.nonce), 20)
	switch {
	case err != nil:
		r.say(skipped, a.name, err.Error())
	case !strings.Contains(out, "\nGOT "):
		verdict := held
		if strings.Contains(out, "perl: not found") || strings.Contains(out, "Illegal option") {
			verdict = skipped
		}
		r.say(verdict, a.name, out)
	case a.network && r.opt.withNetwork:
		r.say(allowed, a.name, out)
	default:
		r.say(through, a.name, out)
	}
}

// canary is a file of this account outside the workspace. Where the sandbox is
// on another machine or in a container, it proves nothing there.
func (r *report) canary(ctx context.Context, t tools) {
	dir, err := os.MkdirTemp("", "sallyport-canary-")
	if err != nil {
		r.say(skipped, "a canary file", err.Error())
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "canary")
	if err := os.WriteFile(path, []byte(r.nonce+"\n"), 0o644); err != nil {
		r.say(skipped, "a canary file", err.Error())
		return
	}
	os.Chmod(dir, 0o755)
	r.command(ctx, t, attempt{name: "read a canary file of this account", script: "got grep -q " + r.nonce + " " +
		path})
	r.command(ctx, t, attempt{name: "write a canary file of this account", script: "got sh -c 'echo x >> " + path +
		"'"})
	for _, p := range []string{path, "../../../../../../.." + path, "/etc/passwd", "../../../../../../../etc/passwd",
		"/proc/self/environ"} {
		r.file(ctx, t, "read_file "+filepath.Base(filepath.Dir(p))+"/"+filepath.Base(p)+" by path", "read_file",
			map[string]any{"path": p})
	}
}

func (r *report) file(ctx context.Context, t tools, name, tool string, args map[string]any) {
	text, ok, err := t.call(ctx, tool, args)
	switch {
	case err != nil:
		r.say(skipped, name, err.Error())
	case ok:
		r.say(through, name, text)
	default:
		r.say(held, name, text)
	}
}

// links are made by a command and followed by the server, which has more rights.
func (r *report) links(ctx context.Context, t tools) {
	dir := "sallyport-" + r.nonce
	defer t.run(ctx, "rm -rf "+dir, 20)
	setup := fmt.Sprintf("mkdir %[1]s && cd %[1]s && ln -s /etc/passwd file && ln -s /etc dir && ln -s /tmp/%[1]s "+
		"dangling && mkfifo fifo", dir)
	if out, err := t.run(ctx, setup, 20); err != nil {
		r.say(skipped, "symbolic links", out+err.Error())
		return
	}
	r.file(ctx, t, "read_file through a link to a file", "read_file", map[string]any{"path": dir + "/file"})
	r.file(ctx, t, "read_file through a link to a directory", "read_file", map[string]any{"path": dir + "/dir/passwd"})
	r.file(ctx, t, "write_file through a dangling link", "write_file",
		map[string]any{"path": dir + "/dangling", "content": "x"})
	start := time.Now()
	r.file(ctx, t, "hang read_file on a FIFO", "read_file", map[string]any{"path": dir + "/fifo"})
	if time.Since(start) > 10*time.Second {
		r.say(through, "hang read_file on a FIFO", "it hung")
	}
}

// survivor starts something that wants to stay, and looks for it afterwards.
func (r *report) survivor(ctx context.Context, t tools, a attempt, number string) {
	start := time.Now()
	_, err := t.run(ctx, strings.ReplaceAll(a.script, "N ", number+" "), 20)
	if err != nil {
		r.say(skipped, a.name, err.Error())
		return
	}
	took := time.Since(start).Round(time.Millisecond)
	if took > 15*time.Second {
		r.say(through, a.name, fmt.Sprintf("the answer took %v", took))
		return
	}
	r.command(ctx, t, attempt{name: a.name, script: `n=0; for p in /proc/[0-9]*; ` +
		`do [ $p != /proc/$$ ] && tr '\0' ' ' < $p/cmdline 2>/dev/null | grep -qF "` +
		number[:len(number)-1] + `"'` + number[len(number)-1:] +
		`' && n=$((n+1)) && kill -9 ${p#/proc/} 2>/dev/null; done; [ $n = 0 ] || echo "GOT $n alive"; ` +
		`echo "none alive, answered in ` + took.String() + `"`})
}

// installation names the folder of the installation to the scripts, where attack runs in
// one: on a bare machine the owner's files lie there.
func installation() string {
	dir, err := os.Getwd()
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, ".sallyport"))
	}
	if err != nil {
		dir = "/nonexistent"
	}
	return "INSTALLATION='" + strings.ReplaceAll(dir, "'", `'\''`) + "'\n"
}
