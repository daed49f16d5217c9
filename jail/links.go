package jail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// linked are files of /etc that programs need and that many systems keep
// elsewhere, behind a link out of what a command may read: names, accounts, the
// time zone, certificates.
var linked = []string{"hosts", "nsswitch.conf", "passwd", "group", "localtime", "timezone", "machine-id",
	"ssl/cert.pem", "ssl/ca-bundle.pem", "ssl/certs", "ssl/certs/ca-certificates.crt",
	"pki/tls/cert.pem", "pki/tls/certs", "pki/tls/certs/ca-bundle.crt", "ca-certificates/extracted"}

// certificates are the only directories that such a link opens.
var certificates = []string{"/var/lib/ca-certificates/", "/run/current-system/", "/var/lib/pki/"}

// withLinks lets commands read what such links point to, as files; with a network
// of the machine's also the list of its name servers.
func withLinks(cfg policy.Config, etc string) policy.Config {
	names := linked
	if cfg.Network == Container {
		names = append([]string{"resolv.conf"}, names...)
	}
	for _, name := range names {
		path, err := filepath.EvalSymlinks(filepath.Join(etc, name))
		if err != nil || !publicFile(path) {
			continue
		}
		if _, granted := cfg.Grants(path); !granted {
			cfg.Readable = append(slices.Clone(cfg.Readable), path)
		}
	}
	return cfg
}

// publicFile reports whether everybody may read a file, or a directory of
// certificates, so that a link opens no secret.
func publicFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o004 == 0 {
		return false
	}
	below := func(dir string) bool { return strings.HasPrefix(path+"/", dir) }
	return info.Mode().IsRegular() || info.IsDir() && slices.ContainsFunc(certificates, below)
}
