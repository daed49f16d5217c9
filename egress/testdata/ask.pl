# Sends each file to the command's proxy as it is, and says what came of it:
# perl ask.pl FILE… prints "FILE VERDICT", where the verdict is egress's own, "closed" for a
# connection that ended behind a 200 without a byte, or "ok" for one that had any.
use strict; use warnings;
use Socket;
for my $file (@ARGV) {
	open(my $f, '<:raw', $file) or die "$file: $!\n";
	my $bytes = do { local $/; <$f> };
	my ($head, $rest) = $bytes =~ /^(.*?\r\n\r\n)(.*)$/s ? ($1, $2) : ($bytes, '');
	socket(my $s, 2, 1, 0) or die "a socket: $!\n";
	connect($s, pack_sockaddr_in(3128, INADDR_LOOPBACK)) or die "the proxy: $!\n";
	local $SIG{ALRM} = sub { die "$file: no answer\n" }; alarm 20;
	local $SIG{PIPE} = 'IGNORE';
	syswrite($s, $head);
	if ($head =~ /^CONNECT/) {
		my $answer = ''; 1 while $answer !~ /\r\n\r\n/ && sysread($s, $answer, 1, length $answer);
		if ($answer =~ m{^HTTP/1.1 200}) {
			syswrite($s, $rest);
			print "$file ", (sysread($s, my $back, 100) ? 'ok' : 'closed'), "\n";
			next;
		}
		print "$file ", ($answer =~ /X-Sallyport-Verdict: (\S+)/ ? $1 : 'none'), "\n";
		next;
	}
	syswrite($s, $rest); shutdown($s, 1);
	my $answer = ''; 1 while sysread($s, $answer, 4096, length $answer);
	my $verdict = $answer =~ /X-Sallyport-Verdict: (\S+)/ ? $1 : $answer =~ m{^HTTP/1.1 200} ? 'ok' : 'none';
	$verdict .= ' twice' if $answer =~ /stolen/;
	print "$file $verdict\n";
}
