package attack

// attempt is a shell command. It prints a line that begins with the word GOT if
// it got through, else the reason, last. SERVER is sandboxd: the parent of every
// command.
type attempt struct {
	name, script string
	network      bool // what MCP_COMMAND_NETWORK=container opens
}

// prelude gives every script got, which turns success into the word and a
// failure into its message, and perl's view of a call that has no shell command.
const prelude = `SERVER=$PPID
got() { if m=$("$@" 2>&1 >/dev/null); then echo "GOT $*" | cut -c1-120; else echo "${m:-refused}" | tail -1; fi; }
open_rw() { perl -e 'open(F, "+<", $ARGV[0]) or die "$!\n"' "$1"; }
call() { perl -e '$! = 0; my @a = map { $_ + 0 } @ARGV; my $n = shift @a;
	syscall($n, @a, (0) x (5 - @a)) == -1 and die "$!\n"' "$@"; }
sock() { perl -e 'socket(my $s, $ARGV[0], $ARGV[1], $ARGV[2]) or die "$!\n"' "$@"; }
# With MCP_COMMAND_NETWORK=allowlist a socket reaches the command's own loopback alone.
own() {
	[ -n "$https_proxy" ] && [ "$(grep -c : /proc/net/dev)" = 1 ] && grep -q ' lo:' /proc/net/dev &&
		echo "a loopback of its own, and nothing else"
}
tcp() { perl -e 'use Socket;
	socket(S, 2, 1, 0) && connect(S, pack_sockaddr_in($ARGV[1], inet_aton($ARGV[0]))) or die "$!\n";
	exit unless $ARGV[2];
	syswrite(S, "CONNECT $ARGV[2]:443 HTTP/1.1\r\nHost: $ARGV[2]:443\r\n\r\n");
	sysread(S, $_, 200); die "$1\n" if m{^HTTP/1.1 [345].. (.*)}' "$@"; }
pick() { case $(uname -m) in aarch64) echo "$2";; *) echo "$1";; esac; }
`

var attempts = []attempt{
	{name: "the token in the command's environment", script: `got sh -c 'env | grep -q ^MCP_AUTH'`},
	{name: "the server's environment", script: `got cat /proc/$SERVER/environ`},
	{name: "the server's memory", script: `got open_rw /proc/$SERVER/mem`},
	{name: "a server thread's environment", script: `got sh -c 'cat /proc/'$SERVER'/task/*/environ | grep -q .'`},
	{name: "the server's open files", script: `got ls /proc/$SERVER/fd`},
	{name: "the server's root directory", script: `got ls /proc/$SERVER/root/`},
	// PTRACE_SEIZE; ends with the command
	{name: "ptrace the server", script: `got call $(pick 101 117) 16902 $SERVER`},
	{name: "signal the server", script: `got kill -0 $SERVER`},
	{name: "signal any process outside", script: `own=$$; for p in /proc/[0-9]*; do p=${p#/proc/}; ` +
		`[ "$p" = $own ] || [ "$(cut -d' ' -f4 /proc/$p/stat 2>/dev/null)" = $own ] || { kill -0 $p 2>/dev/null && ` +
		`echo "GOT $p $(cat /proc/$p/comm 2>/dev/null)"; }; done; ` +
		`echo "none of $(ls -d /proc/[0-9]* | wc -l) processes"`},
	{name: "the server's limits", script: `got call $(pick 302 261) $SERVER 7 0 0`},
	{name: "the server's priority", script: `got perl -e '$! = 0; ` +
		`setpriority(0, $ARGV[0], getpriority(0, $ARGV[0])); die "$!\n" if $!' $SERVER`},
	{name: "make the server the out-of-memory victim", script: `got sh -c ': >> /proc/'$SERVER'/oom_score_adj'`},
	{name: "a TCP socket", script: `own || got sock 2 1 0`, network: true},
	{name: "a UDP socket", script: `own || got sock 2 2 0`, network: true},
	{name: "an MPTCP socket", script: `own || got sock 2 1 262`, network: true},
	{name: "an IPv6 socket", script: `own || got sock 10 1 0`, network: true},
	// NETLINK_ROUTE: which interfaces there are
	{name: "a netlink socket", script: `own || got sock 16 3 0`, network: true},
	// documentation's: nobody is there
	{name: "an address past the proxy", script: `got tcp 192.0.2.1 443`, network: true},
	{name: "a host that no rule allows", script: `got tcp 127.0.0.1 3128 sallyport-attack.invalid`, network: true},
	{name: "a netlink socket for the kernel's events", script: `got sock 16 3 15`},
	{name: "a vsock socket", script: `got sock 40 1 0`},
	{name: "a packet socket", script: `got sock 17 3 0`},
	{name: "io_uring", script: `got call 425 1 0`},
	{name: "a Unix socket of Docker, D-Bus, tmux or an agent",
		script: `r="none there"; for s in /var/run/docker.sock /run/docker.sock /run/proxy/docker.sock ` +
			`/run/podman/podman.sock /run/dbus/system_bus_socket /run/user/*/bus /tmp/tmux-*/* /tmp/ssh-*/agent.* ` +
			`/run/user/*/gnupg/S.*; do [ -e "$s" ] && r=$(got perl -e 'use Socket; ` +
			`socket(S, 1, 1, 0) && connect(S, sockaddr_un($ARGV[0])) or die "$!\n"' "$s") && echo "$r" | grep GOT; ` +
			`done; echo "$r"`},
	{name: "the owner's and egress's sockets without their keys",
		script: `r="none there"; for s in /run/owner/*.sock /run/sallyport/*.sock /run/egress/*.sock ` +
			`"$INSTALLATION"/.sallyport/run/*/*.sock ` +
			`$(find . -maxdepth 8 -path '*/.sallyport/run/*' -name '*.sock' 2>/dev/null | head -5); ` +
			`do [ -e "$s" ] && r=$(got perl -e 'use Socket; socket(S, 1, 1, 0) && connect(S, sockaddr_un($ARGV[0])) ` +
			`or die "$!\n"; syswrite(S, "0" x 64 . "\n"); sysread(S, $b, 3); ` +
			`die "refused\n" if $b ne "ok\n"' "$s") && echo "$r" | grep GOT; done; echo "$r"`},
	{name: "the records of calls and the owner's key", script: `r="none there"; ` +
		`for f in /audit/* /var/lib/sallyport/audit/* "$INSTALLATION"/.sallyport/audit/*/* ` +
		`"$INSTALLATION"/.sallyport/owner/key ` +
		`$(find . -maxdepth 8 -path '*/.sallyport/audit/*' -type f 2>/dev/null | head -5); ` +
		`do [ -e "$f" ] && { r=$(got cat "$f"); echo "$r" | grep GOT; r=$(got sh -c ': >> "$1"' - "$f"); ` +
		`echo "$r" | grep GOT; }; done; echo "$r"`},
	{name: "a socket without a path", script: `r="none there"; ` +
		`for s in $(sed -n 's/.* @//p' /proc/net/unix 2>/dev/null | sort -u | head -50); ` +
		`do r=$(got perl -e 'use Socket; socket(S, 1, 1, 0) && connect(S, pack("S a*", 1, "\0$ARGV[0]")) or die ` +
		`"$!\n"' "$s"); echo "$r" | grep GOT; done; echo "$r"`},
	{name: "a user namespace", script: `got call $(pick 272 97) 268435456`},
	{name: "mount", script: `got call $(pick 165 40) 0 0 0 0 0`},
	{name: "the kernel's keyrings", script: `got call $(pick 250 219) 0 -3 1`},
	{name: "bpf", script: `got call $(pick 321 280) 0 0 0`},
	{name: "write to /etc", script: `got sh -c ': > /etc/NONCE && rm /etc/NONCE'`},
	{name: "write to /usr", script: `got sh -c ': > /usr/local/bin/NONCE && rm /usr/local/bin/NONCE'`},
	{name: "write to /var/tmp", script: `got sh -c ': > /var/tmp/NONCE && rm /var/tmp/NONCE'`},
	{name: "write beside the workspace", script: `[ "$(cd .. && pwd)" = /tmp ] && echo "beside it is /tmp, which ` +
		`commands may have for themselves" || got sh -c ': > "$PWD/../NONCE" && rm "$PWD/../NONCE"'`},
	{name: "list and read secrets", script: `got sh -c 'for f in /run/secrets/* /run/secrets/*/* /root/.ssh/* ` +
		`/home/*/.ssh/*; do cat "$f" && exit 0; done; exit 1'`},
	{name: "the tokens of an installation inside the workspace",
		script: `r="none there"; for f in $(find . -maxdepth 8 -path '*/.sallyport/*' -type f \( -name '*token' -o ` +
			`-name key \) 2>/dev/null | head -20); do r=$(got cat "$f"); echo "$r" | grep GOT; done; echo "$r"`},
	{name: "the rules and the stack of an installation inside it",
		script: `r="none there"; for f in $(find . -maxdepth 8 -name .sallyport -type d 2>/dev/null | head -20); ` +
			`do for f in ${f%/*}/Makefile ${f%/*}/docker-compose.yml ${f%/*}/traefik-dynamic.yml; ` +
			`do [ ! -e "$f" ] || { r=$(got sh -c ": >> $f"); echo "$r" | grep GOT; }; done; done; echo "$r"`},
	{name: "replace the program that serves", script: `p=$(tr '\0' '\n' </proc/$SERVER/cmdline | head -1); ` +
		`p=$(command -v "$p" || echo /proc/$SERVER/exe); got sh -c ": >> $p"`},
	{name: "shared memory that outlives it", script: `got perl -e 'defined(my $i = shmget(0, 4096, 0600)) or die ` +
		`"$!\n"; shmctl($i, 0, 0)'`},
	{name: "a message queue that outlives it", script: `got perl -e 'defined(my $i = msgget(0, 0600)) or die "$!\n"; ` +
		`msgctl($i, 0, 0)'`},
	{name: "semaphores that outlive it", script: `got perl -e 'defined(my $i = semget(0, 1, 0600)) or die "$!\n"; ` +
		`semctl($i, 0, 0, 0)'`},
	{name: "a POSIX queue that outlives it", script: `got perl -e 'my $n = "NONCE"; ` +
		`syscall($ARGV[0], $n, 0102, 0600, 0) == -1 and die "$!\n"; ` +
		`syscall($ARGV[1], $n)' $(pick 240 180) $(pick 241 181)`},
	{name: "a set-user-ID program", script: `got sh -c ': > NONCE; chmod 4755 NONCE; r=$?; rm -f NONCE; exit $r'`},
	{name: "a set-group-ID program", script: `got sh -c ': > NONCE; chmod 2755 NONCE; r=$?; rm -f NONCE; exit $r'`},
	{name: "more processes than the limit", script: `perl -e 'open(F, "/proc/self/limits"); ` +
		`my ($soft, $hard) = join("", <F>) =~ /^Max processes\s+(\S+)\s+(\S+)/m; ` +
		`$soft =~ /^\d+$/ or print("GOT no limit\n"), exit; my $one = pack("QQ", 1, $hard); ` +
		`syscall($ARGV[0], 0, 6, $one, 0) == -1 and print("$!\n"), exit; my $pid = fork; ` +
		`defined $pid or print("at most $soft; past a limit: $!\n"), exit; ` +
		`$pid or exit; wait; print("GOT a process past the limit\n")' $(pick 302 261)`},
	{name: "raise the limit of processes", script: `got perl -e 'open(F, "/proc/self/limits"); ` +
		`my ($hard) = join("", <F>) =~ /^Max processes\s+\S+\s+(\d+)/m or exit; my $more = pack("QQ", $hard + 1, ` +
		`$hard + 1); syscall($ARGV[0], 0, 6, $more, 0) == -1 and die "$!\n"' $(pick 302 261)`},
	{name: "raise a limit", script: `got sh -c 'ulimit -n 4096 || ulimit -c unlimited'`},
}

// survivors are ways to outlive a command. N is a number of seconds by which
// the next command finds them. $() ends when the last one that holds it has
// redirected its output, which is after it has left the session.
var survivors = []attempt{
	{name: "outlive the command in the background", script: `sleep N >/dev/null 2>&1 & exit 0`},
	{name: "outlive it in a session of its own", script: `x=$(setsid sh -c 'exec sleep N >/dev/null 2>&1' &); exit 0`},
	{name: "outlive it by forking twice", script: `x=$(setsid sh -c 'sleep N >/dev/null 2>&1 & exit' &); exit 0`},
	{name: "outlive it stopped", script: `setsid sh -c 'kill -STOP $$; sleep 1' N >/dev/null 2>&1 & sleep .2; exit 0`},
	{name: "outlive it deaf to signals", script: `trap '' TERM HUP INT QUIT; ` +
		`nohup setsid sleep N >/dev/null 2>&1 & sleep .2; exit 0`},
	{name: "hold the output open", script: `setsid sleep N & sleep .2; exit 0`},
	{name: "outlive it as 64 processes", script: `i=0; while [ $i -lt 64 ]; ` +
		`do setsid sleep N >/dev/null 2>&1 & i=$((i+1)); done; sleep .3; exit 0`},
}
