package jail

import (
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// unknownCall is the first system call number that this policy has not seen. A
// newer kernel's calls answer like an older kernel's would.
const unknownCall = 472

// numbers are the system calls that the policy names: amd64, arm64 (-1: none).
const numbers = `
acct 163 89, add_key 248 217, bpf 321 280, chroot 161 51, clock_settime 227 112, clone 56 220, clone3 435 435,
delete_module 176 106, fanotify_init 300 262, fanotify_mark 301 263, file_setattr 469 469, finit_module 313 273, fsconfig 431 431, fsmount 432 432,
fsopen 430 430, fspick 433 433, init_module 175 105, io_uring_enter 426 426, io_uring_register 427 427, io_uring_setup 425 425,
ioctl 16 29, ioperm 173 -1, iopl 172 -1, ioprio_set 251 30, kcmp 312 272, kexec_file_load 320 294, kexec_load 246 104,
keyctl 250 219, listns 470 470, migrate_pages 256 238, modify_ldt 154 -1, mount 165 40, mount_setattr 442 442, move_mount 429 429,
move_pages 279 239, mq_open 240 180, mq_unlink 241 181, msgctl 71 187, msgget 68 186, msgrcv 70 188, msgsnd 69 189,
name_to_handle_at 303 264, open_by_handle_at 304 265, open_tree 428 428, open_tree_attr 467 467, perf_event_open 298 241,
pidfd_getfd 438 438, pivot_root 155 41, prlimit64 302 261, process_madvise 440 440, process_mrelease 448 448,
process_vm_readv 310 270, process_vm_writev 311 271, ptrace 101 117, quotactl 179 60, quotactl_fd 443 443, reboot 169 142,
request_key 249 218, sched_setaffinity 203 122, sched_setattr 314 274, sched_setparam 142 118, sched_setscheduler 144 119,
semctl 66 191, semget 64 190, semop 65 193, semtimedop 220 192, setdomainname 171 162, sethostname 170 161, setns 308 268,
setpriority 141 140, settimeofday 164 170, shmat 30 196, shmctl 31 195, shmget 29 194, socket 41 198, socketpair 53 199,
swapoff 168 225, swapon 167 224, syslog 103 116, umount2 166 39, unshare 272 97, userfaultfd 323 282, vhangup 153 58`

// always are the calls that no command needs: namespaces, other processes'
// memory, kernel interfaces with a history, flags of files that need not be
// opened (Landlock does not see the call), and what only root may anyway.
const always = "unshare setns listns clone3 io_uring_setup io_uring_enter io_uring_register add_key request_key keyctl bpf perf_event_open userfaultfd " +
	"ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease " +
	"mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick mount_setattr " +
	"name_to_handle_at open_by_handle_at file_setattr init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff " +
	"quotactl quotactl_fd acct fanotify_init fanotify_mark syslog settimeofday clock_settime sethostname setdomainname vhangup ioperm iopl modify_ldt"

// shared are the calls that reach shared memory and queues of the account's
// other processes. A container has its own.
const shared = "shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink"

// others are the calls that would change another process of the account: no
// Landlock right covers them. Only the caller itself (0) may be named.
const others = "prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr migrate_pages move_pages"

// datagrams is the bit that SOCK_DGRAM and SOCK_RAW have, SOCK_STREAM and
// SOCK_SEQPACKET have not. One end of a pair of the first two can send to the
// path of any other socket (unix(7)): to the journal, say, or to systemd.
const datagrams = 2

// newNamespaces are the CLONE_NEW* flags that clone accepts.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

func (c Config) calls() []rule {
	var rs []rule
	names := always
	if !c.InContainer {
		names += " " + shared
		rs = append(rs, rule{kind: "call", name: "socketpair", arg: 1, op: "&", vals: []uint32{datagrams}})
	}
	for _, name := range strings.Fields(names) {
		if _, ok := number(name, runtime.GOARCH); ok {
			rs = append(rs, rule{kind: "call", name: name})
		}
	}
	for _, name := range strings.Fields(others) {
		rs = append(rs, rule{kind: "call", name: name, op: "not in", vals: []uint32{0}})
	}
	return append(rs,
		rule{kind: "call", name: "clone", op: "&", vals: []uint32{newNamespaces}},
		rule{kind: "call", name: "setpriority", arg: 0, op: "not in", vals: []uint32{unix.PRIO_PROCESS}},
		rule{kind: "call", name: "setpriority", arg: 1, op: "not in", vals: []uint32{0}},
		rule{kind: "call", name: "ioprio_set", arg: 0, op: "not in", vals: []uint32{1}}, // IOPRIO_WHO_PROCESS
		rule{kind: "call", name: "ioprio_set", arg: 1, op: "not in", vals: []uint32{0}},
		rule{kind: "call", name: "ioctl", arg: 1, op: "in", vals: []uint32{unix.TIOCSTI, unix.TIOCLINUX}},
		rule{kind: "call", name: "socket", op: "not in", vals: c.families()},
		rule{kind: "call", name: "socketpair", op: "not in", vals: []uint32{unix.AF_UNIX}})
}

// families are the kinds of socket that a command may make. Paths of Unix
// sockets are not covered by Landlock, so they are left only where nobody
// else's are in reach.
func (c Config) families() []uint32 {
	var fs []uint32
	if c.InContainer {
		fs = append(fs, unix.AF_UNIX)
	}
	if c.Network == Container {
		fs = append(fs, unix.AF_INET, unix.AF_INET6)
	}
	return fs
}

func number(name, arch string) (uint32, bool) {
	i := strings.Index(numbers, "\n"+name+" ")
	if i < 0 {
		i = strings.Index(numbers, " "+name+" ")
	}
	if i < 0 {
		return 0, false
	}
	var amd64, arm64 int
	fmt.Sscan(numbers[i+len(name)+2:], &amd64, &arm64)
	if arch == "arm64" {
		amd64 = arm64
	}
	return uint32(amd64), amd64 >= 0
}

// Offsets in struct seccomp_data (linux/seccomp.h), little endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	bpfLoad  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfAtMin = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfBits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	bpfRet   = unix.BPF_RET | unix.BPF_K
)

func op(code uint16, k uint32, jt, jf int) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k, Jt: uint8(jt), Jf: uint8(jf)}
}

func refuse(errno uint32) unix.SockFilter { return op(bpfRet, unix.SECCOMP_RET_ERRNO|errno, 0, 0) }

// assemble writes the filter for an architecture. Another one's calls have
// other numbers, so whoever makes one is killed.
func assemble(rules []rule, arch string) []unix.SockFilter {
	audit := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[arch]
	prog := []unix.SockFilter{
		op(bpfLoad, offArch, 0, 0), op(bpfEqual, audit, 1, 0), op(bpfRet, unix.SECCOMP_RET_KILL_PROCESS, 0, 0),
		// Above it lie the x32 calls, which also carry amd64's architecture.
		op(bpfLoad, offNumber, 0, 0), op(bpfAtMin, unknownCall, 0, 1), refuse(uint32(unix.ENOSYS)),
	}
	for _, r := range rules {
		nr, ok := number(r.name, arch)
		if r.kind != "call" || !ok {
			continue
		}
		prog = append(prog, op(bpfLoad, offNumber, 0, 0))
		test := r.test()
		prog = append(prog, op(bpfEqual, nr, 0, len(test)))
		prog = append(prog, test...)
	}
	return append(prog, op(bpfRet, unix.SECCOMP_RET_ALLOW, 0, 0))
}

// test is what follows once the call's number fits: it refuses or falls off
// its end. Kernel arguments of these kinds are 32 bits wide, so the low half
// is the whole argument, whatever the high half says.
func (r rule) test() []unix.SockFilter {
	if r.op == "" {
		return []unix.SockFilter{refuse(uint32(unix.ENOSYS))}
	}
	t := []unix.SockFilter{op(bpfLoad, uint32(offArgs+8*r.arg), 0, 0)}
	n := len(r.vals)
	for i, v := range r.vals {
		switch r.op {
		case "&":
			t = append(t, op(bpfBits, v, 0, 1))
		case "in": // any match goes to the refusal behind the last value
			t = append(t, op(bpfEqual, v, n-1-i, (i+1)/n))
		case "not in": // any match goes past the refusal
			t = append(t, op(bpfEqual, v, n-i, 0))
		}
	}
	return append(t, refuse(uint32(unix.EPERM)))
}
