package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/jail"
)

// What programs say when they meet a limit of the jail. They name neither the limit nor
// what to do, and some name a wrong reason: pip calls a package unknown.
var (
	// They may start no process or thread.
	noFork = []string{
		"Cannot fork", "can't fork", "cannot fork", "fork: retry", "newosproc", "pthread_create",
		"unable to create native thread", "uv_thread_create", "can't start new thread",
		"failed to create new OS thread",
	}
	perhapsNoFork = []string{"esource temporarily unavailable", "EAGAIN"} // or a lock that another one holds
	noNetwork     = []string{
		"ocket: operation not permitted", "ocket: Operation not permitted", "failed: Operation not permitted",
		"socket.py\", line", "listen EPERM", "connect EPERM", "SocketException", "UnknownHostException", "curl: (7)",
		"error connecting to /", "permitted (os error 1)", "permitted - socket(2)", "reason: Operation not permitted",
		"resolve host", "Could not resolve", "Couldn't resolve", "name resolution", "Temporary failure resolving",
		"EAI_AGAIN", "ENOTFOUND", "getaddrinfo", "(from versions: none)",
	}
	noServer = []string{"Connection refused", "connection refused", "ECONNREFUSED", "curl: (7)"}
	noUnix   = []string{"error connecting to /", "PermissionError: [Errno 1]", "docker.sock", "SSH_AUTH_SOCK"}
	noTrace  = []string{
		"ptrace: Function not implemented", "PTRACE_TRACEME", "PTRACE_SETOPTIONS", "PTRACE_SEIZE", "PTRACE_ATTACH",
		"LeakSanitizer has encountered a fatal error",
	}
	noBash = []string{
		": source: not found", ": [[: not found", ": time: not found", ": shopt: not found", ": declare: not found",
		": pushd: not found", ": function: not found", "Bad substitution", "Syntax error: redirection unexpected",
		"Syntax error: \"(\" unexpected", "Illegal option -o pipefail",
	}
	noSetID = []string{
		"chmod: changing permissions of", "cannot change permissions of", "cp: preserving permissions for",
		": Cannot change mode to",
	}
	noParent = []string{"/go.mod: permission denied", "/go.work: permission denied"}
)

// explain says which of the jail's limits may be why a command failed, where its
// output says so, or the jail has seen it, and what to do. The exit code of a line like
// "go test | tail" or "make; ls" is not that of the part that failed.
func (s *Set) explain(out *common, st state, line string, texts ...string) {
	failed := st.ExitCode != 0 || st.TimedOut
	if st.Running || !failed && !strings.ContainsAny(line, "|;&\n") {
		return
	}
	says := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, w) })
		})
	}
	if met := st.metLimit || says(noFork); failed && (met || says(perhapsNoFork)) {
		how := "was"
		if !met {
			how = "may have been"
		}
		out.note("The limit of processes and threads %s met%s: run fewer at once (for example jest -w 2, make -j2, "+
			"go test -p 2, pytest -n 2), "+
			"or ask the owner to raise MCP_MAX_PROCESSES (and pids_limit in a container).", how, s.limitWords())
	}
	if s.cfg.Network == jail.None && s.cfg.Jail.Notices() == nil && says(noNetwork) {
		out.note("Commands have no network, not even loopback%s, whatever a program says of a host, a package or a "+
			"server: do not try again. If it is needed, ask the owner for a list of hosts (EGRESS=go,npm,HOST with "+
			"make run or make up), which also lets a server and its client talk within one command.", s.sockets())
	}
	if s.cfg.Network == jail.Allowlist && says(noServer) {
		out.note("Loopback is each command's own: what another command serves, one of start_command too, cannot be " +
			"reached. Start the server and use it in one command.")
	}
	if s.cfg.Network != jail.None && s.cfg.NoUnixSockets && says(noUnix) {
		out.note("Commands have no Unix sockets, which tmux, Docker, ssh-agent and multiprocessing.Manager need.")
	}
	if says(noTrace) {
		out.note("Commands have no ptrace: strace, gdb, dlv and LeakSanitizer cannot work here. Print or log, or use " +
			"-fsanitize=address, valgrind or python3 -X faulthandler.")
	}
	if says(noBash) {
		out.note("Commands run in /bin/sh, which here has none of bash's syntax (source, [[, <(…), pipefail, time): " +
			"use bash -c, if it is installed.")
	}
	if s.cfg.Jail.Notices() == nil && says(noSetID) && says([]string{"Operation not permitted"}) {
		out.note("If the file is yours, its mode has the set-user-ID or set-group-ID bit, which is refused. Below a " +
			"directory with the latter (an s in ls -ld) it comes along by itself: write chmod 00755 instead of 755, " +
			"or take it away first with find . -type d -exec chmod g-s {} +.")
	}
	if says(noParent) {
		out.note("Go found a go.mod or go.work above the workspace, where commands cannot read: run go mod init NAME " +
			"in the program's own folder, or set GOWORK=off.")
	}
}

func (s *Set) limitWords() string {
	if s.cfg.Processes == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d for all running commands together)", s.cfg.Processes)
}

// sockets are the words on Unix sockets, where those are refused too.
func (s *Set) sockets() string {
	if s.cfg.NoUnixSockets {
		return " and no Unix sockets"
	}
	return ""
}

// leaves matches a line whose last part goes to the background, with no more than an echo
// after it, and one that detaches a part.
var leaves = regexp.MustCompile(`[^&>|\s]\s*&[\s)]*$|\s&\s*(echo|disown|exit)\b[^;&|\n]*$|` +
	`\b(nohup|setsid)\s.*[^&>|\s]\s*&([\s)]|$)`)

// noteLeft says that nothing outlives a command, if line looks as if something should.
func (s *Set) noteLeft(out *common, line string) {
	if !leaves.MatchString(line) || strings.Contains(line, "wait") || strings.Contains(line, "kill") {
		return
	}
	how := "do all that needs it in one command"
	if s.on("start_command") {
		how = "start it with start_command, without &, to keep it running"
	}
	out.note("What a command leaves in the background (&, nohup, setsid) is ended with it: %s.", how)
}
