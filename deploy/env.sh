#!/bin/sh
# Writes .env and the tokens that docker-compose.yml needs, once; what is there stays
# as it is. `make env` runs it; with -show it only says how to connect.
#
#   EGRESS=LIST     hosts that commands may reach (docs/egress.md), or off
#   WORKSPACE=DIR        the directory to serve, if .env does not say so yet
#   LOGIN=https://HOST   turn the login server on (docs/login.md); LOGIN=off: off again
set -eu
cd "$(dirname "$0")/.."
umask 077

say() { printf '%s\n' "$*"; }
die() { printf 'make env: %s\n' "$*" >&2; exit 1; }

# setting NAME DEFAULT prints what .env says.
setting() {
	value=$(sed -n "s/^$1=//p" .env 2>/dev/null | tail -n 1 | sed "s/^'\(.*\)'\$/\1/")
	printf '%s' "${value:-$2}"
}

show() {
	address=${SALLYPORT_HTTPS:-$(setting SALLYPORT_HTTPS 127.0.0.1:8443)}
	say "Serving $(setting SALLYPORT_WORKSPACE '?') at https://$address/mcp-sandbox/sse (or /mcp-sandbox/mcp)."
	say "Traefik's certificate is its own: a client on this machine must be told to accept it."
	say "The client's token:  cat $PWD/.sallyport/edge/client-token"
	login=$(setting SALLYPORT_LOGIN '')
	if [ -n "$login" ]; then
		say "For Claude.ai, ChatGPT and others with OAuth:  $login/mcp-oauth/sandbox/mcp"
		say "Its owner signs in at $login/mcp-login (first: docker compose logs login shows a one-time code)."
	fi
	say "Try it:  { printf 'Authorization: Bearer '; cat .sallyport/edge/client-token; } | curl -kN -H @- https://$address/mcp-sandbox/sse"
}

find_workspace() {
	workspace=${WORKSPACE:-workspace}
	case $workspace in
	"~/"*) workspace=$HOME/${workspace#"~/"} ;; # a shell that did not expand it after make's =
	esac
	if [ -d "$workspace" ] && [ -x "$workspace" ]; then workspace=$(cd -- "$workspace" && pwd -P); fi
}

# within OUTER INNER: is INNER the directory OUTER or inside it? Directories are told
# apart by device and inode, so that a bind mount is known as well.
within() {
	outer=$(stat -c %d:%i -- "$1")
	step=$2
	while :; do
		[ "$(stat -c %d:%i -- "$step")" != "$outer" ] || return 0
		[ "$step" != / ] || return 1
		step=$(dirname -- "$step")
	done
}

# A command must not reach what the owner and Traefik run, nor the tokens: of this
# checkout only the folder "workspace" may be served.
apart() {
	here=$(pwd -P)
	! within "$1" "$here" ||
		die "the workspace $1 contains this installation, $here: a command could read its tokens and change its Makefile and Traefik's rules. Name another directory with WORKSPACE=DIR, or move the installation out of it"
	[ -d workspace ] && within "$here/workspace" "$1" || ! within "$here" "$1" ||
		die "the workspace $1 lies inside this installation, $here, whose files are run: of it only $here/workspace may be served. Name another directory with WORKSPACE=DIR"
}

# The workspace and who owns it. A folder of root's is given to 64321 (itself, not
# what is in it): nothing in this stack runs as root.
choose_owner() {
	find_workspace
	mkdir -p -- "$workspace" || die "cannot make the workspace $workspace"
	workspace=$(cd -- "$workspace" && pwd -P)
	case $workspace in
	/) die "the workspace must not be /: name a directory with WORKSPACE=DIR" ;;
	*\'*) die "the workspace's path has a quote in it, which .env cannot hold: $workspace" ;;
	*:*) die "the workspace's path has a colon in it, which neither Docker nor SALLYPORT_FORBIDDEN_SOURCES can hold: $workspace" ;;
	esac
	apart "$workspace"
	uid=$(stat -c %u -- "$workspace")
	gid=$(stat -c %g -- "$workspace")
	if [ "$uid" = 0 ]; then
		[ "$(id -u)" = 0 ] || die "$workspace belongs to root: choose a directory of your own with WORKSPACE=DIR, or run this as root"
		uid=64321 gid=64321
		roots=$(find "$workspace" -mindepth 1 -maxdepth 1 -user 0 2>/dev/null | head -n 1)
		[ -z "$roots" ] || die "$workspace belongs to root and holds files of root's, such as $roots: commands never run as root and could not work with them. Three ways out: name another directory with WORKSPACE=DIR; give all of it away (chown -R $uid:$gid $workspace); or serve a clone (git clone $workspace DIR && chown -R $uid:$gid DIR)"
		chown "$uid:$gid" -- "$workspace"
		say "$workspace belonged to root and was given to user $uid (itself, not what is in it)."
	fi
	[ "$gid" != 0 ] || gid=64321
	if [ "$(id -u)" != 0 ] && [ "$(id -u)" != "$uid" ]; then
		die "$workspace belongs to user $uid and you are user $(id -u): run this as its owner or as root"
	fi
}

# settled refuses a wish that .env contradicts: another folder than the one that
# was asked for must not be served silently.
settled() {
	[ "${WORKSPACE:-workspace}" != workspace ] || return 0
	find_workspace
	was=$(setting SALLYPORT_WORKSPACE '')
	[ "$workspace" = "$was" ] ||
		die ".env says that $was is served, not $workspace: remove .env for a new one (the tokens stay), or leave WORKSPACE out"
}

write_env() {
	choose_owner
	{
		say "# Written by make env; .env.example explains each line and what else may stand here."
		say "SALLYPORT_WORKSPACE='$workspace'"
		say "SALLYPORT_UID=$uid"
		say "SALLYPORT_GID=$gid"
	} >.env.new
	ln .env.new .env # never over one that came in between
	rm -f .env.new
	say "Wrote .env: workspace $workspace, user $uid:$gid."
}

# key NAME VALUE adds a setting that .env lacks, such as one of a newer version. One
# that is there, also an empty one or one in a comment of its own line, stays.
key() {
	grep -q "^#\{0,1\} *$1=" .env && return
	[ -z "$(tail -c 1 .env)" ] || echo >>.env # a last line without its newline
	say "$1=$2" >>.env
	[ -n "$fresh" ] || say "Added $1=$2 to .env."
}

# keys are the settings that every .env holds beside workspace and owner.
keys() {
	cpus=$(nproc)
	[ "$cpus" -le 2 ] || cpus=2
	key SALLYPORT_TMPFS_SIZE 512m
	key SALLYPORT_CPUS "$cpus"
	key SALLYPORT_PIDS "$((176 + 32 * $(nproc)))" # 48 for the server, 128 and 32 for each core for commands
	[ ! -S /var/run/docker.sock ] || key SALLYPORT_DOCKER_GID "$(stat -c %g /var/run/docker.sock)"
}

# The policy proxy cannot see the host's files: it is told where commands of the
# sandbox write, and the way to this checkout, also by a link that leads to it.
forbidden() {
	here=$(pwd -P)
	all=$(setting SALLYPORT_WORKSPACE "$here/workspace"):$here
	[ "$PWD" = "$here" ] || all=$all:$PWD
	case $all in
	*\'*) die "the path of the workspace or of this installation has a quote in it, which .env cannot hold: $all" ;;
	esac
	key SALLYPORT_FORBIDDEN_SOURCES "'$all'"
	was=$(setting SALLYPORT_FORBIDDEN_SOURCES none)
	for path in "$(setting SALLYPORT_WORKSPACE "$here/workspace")" "$here"; do
		case $was: in
		none: | "$path:"* | *":$path:"*) ;;
		*) die "SALLYPORT_FORBIDDEN_SOURCES in .env lacks $path, which a command of the sandbox, or its owner, may write: add it, with : before it" ;;
		esac
	done
}

# token FILE makes a token of 256 random bits where there is none.
token() {
	[ ! -e "$1" ] || return 0
	od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$1.new"
	[ "$(wc -c <"$1.new")" -eq 64 ] || die "could not read /dev/urandom"
	echo >>"$1.new"
	ln "$1.new" "$1"
	rm -f "$1.new"
	say "Made $PWD/$1."
}

# account writes a line for the commands' account, which no image can know.
account() {
	say "root:x:0:0:root:/root:/usr/sbin/nologin" >.sallyport/passwd.new
	say "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin" >>.sallyport/passwd.new
	say "sandbox:x:$uid:$gid:sandbox:/private:/bin/sh" >>.sallyport/passwd.new
	# Not by rename: a running container has the file itself mounted.
	cat .sallyport/passwd.new >.sallyport/passwd
	rm -f .sallyport/passwd.new
	chmod 0644 .sallyport/passwd
}

# own gives the private files to the user that the containers run as.
own() {
	for name in $folders $files; do
		[ ! -L "$name" ] || die "$name is a symbolic link: remove it"
		[ "$(id -u)" != 0 ] || chown -h "$uid:$gid" "$name"
	done
	chmod 0700 $folders
	chmod 0600 $files
}

# Traefik reads these as that user; a checkout made under umask 077 hides them.
readable() {
	chmod -R go+rX plugin
	chmod go+r .traefik.yml go.mod traefik-dynamic.yml
}

# put NAME VALUE writes a setting over what .env says; an empty value removes it.
put() {
	{
		grep -v "^$1=" .env || [ $? = 1 ]
		[ -z "$2" ] || say "$1=$2"
	} >.env.new
	chmod 0600 .env.new
	mv .env.new .env
}

# profile NAME on|off changes COMPOSE_PROFILES.
profile() {
	rest=$(setting COMPOSE_PROFILES '' | tr ',' '\n' | grep -vx "$1" | paste -sd, -) || true
	[ "$2" = off ] || rest=${rest:+$rest,}$1
	put COMPOSE_PROFILES "$rest"
}

# login turns the login server on or off, where LOGIN says so. login.json is the owner's:
# it is written once.
login() {
	case ${LOGIN:-} in
	'') return ;;
	off)
		put SALLYPORT_LOGIN ''
		profile login off
		return
		;;
	esac
	printf '%s\n' "$LOGIN" | grep -Eqx 'https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?' ||
		die "LOGIN=$LOGIN: write https://HOST, the public name in lower case without a path, or LOGIN=off"
	mkdir -p config
	[ -e config/login.json ] || sed "s|@LOGIN@|$LOGIN|g" deploy/login.json >config/login.json
	grep -Fq "\"issuer\": \"$LOGIN/mcp-login\"" config/login.json ||
		die "config/login.json has another issuer than $LOGIN/mcp-login: write the new host into it, or remove it for a new one"
	[ "$(setting SALLYPORT_LOGIN '')" = "$LOGIN" ] || put SALLYPORT_LOGIN "$LOGIN"
	profile login on
}

# egress turns the way to listed hosts on or off, where EGRESS says so. Names of package
# managers become the rules that they need, in .env, where they can be read.
egress() {
	case ${EGRESS:-} in
	'') return ;;
	off)
		put EGRESS_ALLOW ''
		put COMPOSE_FILE ''
		profile egress off
		return
		;;
	esac
	rules=$(set -f && bin/sallyport hosts $(printf '%s' "$EGRESS" | tr ',' ' ')) || die "EGRESS=$EGRESS: see above"
	rules=$(printf '%s\n' "$rules" | paste -sd, -)
	case $(setting COMPOSE_FILE docker-compose.yml:deploy/egress.yml) in
	docker-compose.yml:deploy/egress.yml) ;;
	*) die ".env has a COMPOSE_FILE of your own: add deploy/egress.yml to it, EGRESS_ALLOW=$rules, and egress to COMPOSE_PROFILES" ;;
	esac
	put EGRESS_ALLOW "$rules"
	put COMPOSE_FILE docker-compose.yml:deploy/egress.yml
	profile egress on
	say "Commands may reach: $rules"
}

if [ "${1:-}" = -show ]; then
	show
	exit
fi
fresh=
if [ -e .env ]; then
	settled
	was=$(setting SALLYPORT_WORKSPACE '')
	[ ! -d "$was" ] || apart "$was"
	uid=$(setting SALLYPORT_UID '') gid=$(setting SALLYPORT_GID '')
	case $uid:$gid in
	0:* | *:0) die ".env says SALLYPORT_UID=$uid, SALLYPORT_GID=$gid: root is refused. Put the workspace's owner there" ;;
	:* | *: | *[!0-9:]*) die ".env has no SALLYPORT_UID and SALLYPORT_GID in numbers: see .env.example, or remove .env" ;;
	esac
else
	fresh=yes
	write_env
fi
keys
forbidden
login
egress
folders=".sallyport .sallyport/edge .sallyport/owner .sallyport/login .sallyport/login-revoked .sallyport/hub-state .sallyport/proxy .sallyport/sockets .sallyport/secrets .sallyport/tailscale config programs"
folders="$folders .sallyport/audit .sallyport/audit/sandboxd .sallyport/audit/hub .sallyport/audit/login .sallyport/run .sallyport/run/sandboxd .sallyport/run/hub .sallyport/egress .sallyport/run/egress .sallyport/audit/egress"
tokens=".sallyport/edge/client-token .sallyport/sandbox-token .sallyport/hub-token .sallyport/owner/key .sallyport/egress/key"
files=".env $tokens config/mcp.json"
mkdir -p $folders
for file in $tokens; do
	token "$file"
done
[ ! -e config/login.json ] || files="$files config/login.json"
[ -e config/mcp.json ] || say '{"mcpServers": {}}' >config/mcp.json
own
account
readable
