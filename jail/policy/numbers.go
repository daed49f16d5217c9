package policy

import (
	"fmt"
	"strings"
)

// UnknownCall is the first system call number that this policy has not seen. A
// newer kernel's calls answer like an older kernel's would.
const UnknownCall = 472

// numbers are the system calls that the policy names: amd64, arm64 (-1: none).
const numbers = `
acct 163 89, add_key 248 217, bpf 321 280, chroot 161 51, clock_settime 227 112, clone 56 220, clone3 435 435,
delete_module 176 106, fanotify_init 300 262, fanotify_mark 301 263, file_setattr 469 469, finit_module 313 273,
fsconfig 431 431, fsmount 432 432, fsopen 430 430, fspick 433 433, init_module 175 105, io_setup 206 0,
io_uring_enter 426 426, io_uring_register 427 427, io_uring_setup 425 425, ioctl 16 29, ioperm 173 -1, iopl 172 -1,
ioprio_set 251 30, kcmp 312 272, kexec_file_load 320 294, kexec_load 246 104, keyctl 250 219, listns 470 470,
migrate_pages 256 238, modify_ldt 154 -1, mount 165 40, mount_setattr 442 442, move_mount 429 429, move_pages 279 239,
mq_open 240 180, mq_unlink 241 181, msgctl 71 187, msgget 68 186, msgrcv 70 188, msgsnd 69 189,
name_to_handle_at 303 264, open_by_handle_at 304 265, open_tree 428 428, open_tree_attr 467 467,
perf_event_open 298 241, pidfd_getfd 438 438, pivot_root 155 41, prlimit64 302 261, process_madvise 440 440,
process_mrelease 448 448, process_vm_readv 310 270, process_vm_writev 311 271, ptrace 101 117, quotactl 179 60,
quotactl_fd 443 443, reboot 169 142, request_key 249 218, sched_setaffinity 203 122, sched_setattr 314 274,
sched_setparam 142 118, sched_setscheduler 144 119, semctl 66 191, semget 64 190, semop 65 193, semtimedop 220 192,
setdomainname 171 162, sethostname 170 161, setns 308 268, setpriority 141 140, settimeofday 164 170, shmat 30 196,
shmctl 31 195, shmget 29 194, socket 41 198, socketpair 53 199, swapoff 168 225, swapon 167 224, syslog 103 116,
umount2 166 39, unshare 272 97, userfaultfd 323 282, vhangup 153 58, chmod 90 -1, creat 85 -1, fchmod 91 52,
fchmodat 268 53, fchmodat2 452 452, mknod 133 -1, mknodat 259 33, open 2 -1, openat 257 56, openat2 437 437`

// Calls are the names of the system calls that the policy can name.
func Calls() (names []string) {
	for entry := range strings.SplitSeq(numbers, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(entry), " ")
		names = append(names, name)
	}
	return names
}

// Number is the number of a system call that the policy names, and whether the
// architecture (GOARCH: amd64 or arm64) has it.
func Number(name, arch string) (uint32, bool) {
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
