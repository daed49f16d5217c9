// Package egresstest is a small Internet for tests, inside a network namespace
// of theirs: public addresses on its loopback, a DNS server, and hosts that
// speak TLS. The binaries under test need no switch for it.
package egresstest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Inside says, in the environment, that this process is in its namespace.
const Inside = "EGRESSTEST_INSIDE"

// Namespaces is the SysProcAttr of a process that is to call Setup: it has
// network and mount namespaces of its own, and is root in them.
func Namespaces() *syscall.SysProcAttr {
	if os.Geteuid() == 0 {
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	}
	return &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings:                []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		GidMappingsEnableSetgroups: false,
	}
}

// Setup brings loopback up, gives it addrs, and makes dir/resolv.conf, which
// names the DNS server 127.0.0.1, the one of this mount namespace.
func Setup(dir string, addrs ...netip.Addr) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := Up(); err != nil {
		return err
	}
	for _, a := range addrs {
		if err := addAddress(a); err != nil {
			return fmt.Errorf("address %v: %w", a, err)
		}
	}
	for name, text := range map[string]string{
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n", "hosts": "127.0.0.1 localhost\n",
		"nsswitch.conf": "hosts: files dns\n",
	} {
		if err := replace(filepath.Join(dir, name), "/etc/"+name, text); err != nil {
			return err
		}
	}
	return nil
}

func replace(source, target, text string) error {
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(target); err != nil {
		return nil // nobody reads it here
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// Up brings the loopback interface up.
func Up() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// addAddress adds a to loopback, whose index is 1 (rtnetlink(7)).
func addAddress(a netip.Addr) error {
	family := byte(unix.AF_INET)
	if a.Is6() {
		family = unix.AF_INET6
	}
	raw := a.AsSlice()
	body := []byte{family, byte(a.BitLen()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}
	body = binary.NativeEndian.AppendUint32(body, 1)
	for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		body = binary.NativeEndian.AppendUint16(body, uint16(4+len(raw)))
		body = binary.NativeEndian.AppendUint16(body, kind)
		body = append(body, raw...)
	}
	head := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	head = binary.NativeEndian.AppendUint16(head, unix.RTM_NEWADDR)
	head = binary.NativeEndian.AppendUint16(head,
		unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	head = append(head, make([]byte, 8)...)
	return request(append(head, body...))
}

// request sends one message of rtnetlink and returns the error it answers.
func request(message []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("a short answer of rtnetlink")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
