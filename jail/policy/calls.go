package policy

import (
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// always are the calls that no command needs: namespaces, other processes'
// memory, kernel interfaces with a history, flags of files that need not be
// opened (Landlock does not see the call), openat2, whose mode lies where a filter
// cannot look, io_setup, by which one command takes the whole machine's asynchronous I/O
// (fs.aio-max-nr) from its databases, sched_setattr, by which a fork bomb could take turns as short as the
// server's, and what only root may anyway.
const always = "openat2 unshare setns listns clone3 io_setup io_uring_setup io_uring_enter io_uring_register " +
	"add_key request_key keyctl bpf perf_event_open userfaultfd " +
	"ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease " +
	"mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick " +
	"mount_setattr " +
	"name_to_handle_at open_by_handle_at file_setattr init_module finit_module delete_module kexec_load " +
	"kexec_file_load reboot swapon swapoff " +
	"quotactl quotactl_fd acct fanotify_init fanotify_mark syslog settimeofday clock_settime sethostname " +
	"setdomainname sched_setattr vhangup ioperm iopl modify_ldt"

// shared are the calls for memory, semaphores and queues that no process holds:
// they outlive their command, fill the memory of the container that they lie in
// until the kernel ends the server, and on a bare machine reach those of the
// account's other processes.
const shared = "shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink"

// others are the calls that would change another process of the account: no
// Landlock right covers them. Only the caller itself (0) may be named.
const others = "prlimit64 sched_setaffinity sched_setscheduler sched_setparam migrate_pages move_pages"

// datagrams is the bit that SOCK_DGRAM and SOCK_RAW have, SOCK_STREAM and
// SOCK_SEQPACKET have not. One end of a pair of the first two can send to the
// path of any other socket (unix(7)): to the journal, say, or to systemd.
const datagrams = 2

// newNamespaces are the CLONE_NEW* flags that clone accepts.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// calls are the rules of the filter.
func (c Config) calls() Rules {
	var rs Rules
	names := always
	if !c.SysVIPC {
		names += " " + shared
	}
	if !c.InContainer {
		rs = append(rs, RefuseIf{Call: "socketpair", Match: Match{1, AnyBit, []uint32{datagrams}}})
	}
	for _, name := range strings.Fields(names) {
		if _, ok := Number(name, runtime.GOARCH); ok {
			rs = append(rs, Refuse{name})
		}
	}
	refuseIf := func(call string, arg int, op Op, values ...uint32) {
		rs = append(rs, RefuseIf{Call: call, Match: Match{arg, op, values}})
	}
	for _, name := range strings.Fields(others) {
		refuseIf(name, 0, NotIn, 0)
	}
	refuseIf("clone", 0, AnyBit, newNamespaces)
	refuseIf("setpriority", 0, NotIn, unix.PRIO_PROCESS)
	refuseIf("setpriority", 1, NotIn, 0)
	refuseIf("ioprio_set", 0, NotIn, 1) // IOPRIO_WHO_PROCESS
	refuseIf("ioprio_set", 1, NotIn, 0)
	refuseIf("ioctl", 1, In, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.FS_IOC_ADD_ENCRYPTION_KEY)
	refuseIf("socket", 0, NotIn, c.families()...)
	refuseIf("socketpair", 0, NotIn, unix.AF_UNIX)
	if c.Network != None { // what os.networkInterfaces and getaddrinfo ask
		rs = append(rs, RefuseIf{Call: "socket", Match: Match{2, NotIn, []uint32{unix.NETLINK_ROUTE}},
			If: []Match{{0, In, []uint32{unix.AF_NETLINK}}}})
	}
	return append(rs, modes()...)
}

// setters are the calls that give a file a mode, and the argument that is it.
var setters = []struct {
	call string
	mode int
}{{"chmod", 1}, {"fchmod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1}, {"mknod", 1}, {"mknodat", 2},
	{"open", 2}, {"openat", 3}}

// modes refuse what makes a program run as the account, or its group, for whoever
// starts it: no other rule covers modes, and the file would stay. The set-group-ID
// bit is refused without group execute too, which an access control list adds
// later (setxattr of system.posix_acl_access), where a filter cannot look.
func modes() (rs Rules) {
	for _, s := range setters {
		if _, ok := Number(s.call, runtime.GOARCH); !ok {
			continue
		}
		var creates []Match // else the mode is no argument, and may be anything
		if s.call == "open" || s.call == "openat" {
			creates = []Match{{s.mode - 1, AnyBit, []uint32{unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY}}}
		}
		rs = append(rs, RefuseIf{s.call, Match{s.mode, AnyBit, []uint32{unix.S_ISUID | unix.S_ISGID}}, creates})
	}
	return rs
}

// families are the kinds of socket that a command may make. Paths of Unix
// sockets are not covered by Landlock, so they are left only where nobody
// else's are in reach.
func (c Config) families() []uint32 {
	var fs []uint32
	if c.InContainer {
		fs = append(fs, unix.AF_UNIX)
	}
	if c.Network != None {
		fs = append(fs, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	return fs
}
