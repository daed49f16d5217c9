package policy

import (
	"fmt"
	"strings"
)

// Rule is one line of the policy: one of the types of this file.
type Rule interface {
	fmt.Stringer
	rule()
}

// Rules are the lines of a policy, in the order in which they are printed.
type Rules []Rule

// All are the rules of one type.
func All[T Rule](rules Rules) (all []T) {
	for _, r := range rules {
		if r, ok := r.(T); ok {
			all = append(all, r)
		}
	}
	return all
}

// Has says whether there is a rule of this type.
func Has[T Rule](rules Rules) bool { return len(All[T](rules)) > 0 }

// The types of rules. Bits are the kernel's (linux/landlock.h).
type (
	// Outer is a scope of the domain that a command shares with one thread of
	// the server.
	Outer struct {
		Name string
		Bits uint64
	}
	// Scope is a scope of the command's own domain.
	Scope struct {
		Name string
		Bits uint64
	}
	// Handle is a right on files that the domain takes away, except where a
	// Grant gives it back.
	Handle struct {
		Name string
		Bits uint64
	}
	// Port is a right on TCP ports that the domain takes away.
	Port struct {
		Name string
		Bits uint64
	}
	// Grant gives rights on a path and on everything inside it.
	Grant struct {
		Access Access
		Path   string
		Rights uint64
	}
	// Refuse is a system call that answers ENOSYS, as an older kernel would.
	Refuse struct{ Call string }
	// RefuseIf is a system call that answers EPERM where its arguments match.
	RefuseIf struct {
		Call  string
		Match         // what is refused ...
		If    []Match // ... where all of these hold too
	}
	// Limit is a resource limit (setrlimit(2)), soft and hard.
	Limit struct {
		Name     string
		Resource int
		Value    uint64
	}
	// Budget is the limit on processes, which is measured.
	Budget struct{}
	// Nice is the priority of commands: the server comes before them, so that
	// it gets its turn beside a fork bomb.
	Nice struct{ Value int }
	// OOMScore makes commands the preferred OOM victims.
	// The kernel goes by size else, and what lies in a memfd counts for no
	// process: a small command could have the server ended in its place.
	OOMScore struct{ Value int }
	// PrivateMounts is the mount namespace of Config.PrivateMounts.
	PrivateMounts struct{}
	// OwnNetwork is the network namespace of Allowlist.
	OwnNetwork struct{}
	// NoNewPrivs keeps set-user-ID programs from giving rights.
	NoNewPrivs struct{}
	// NotDumpable closes memory, environment and descriptors of the server to
	// its own account.
	NotDumpable struct{}
)

func (Outer) rule()         {}
func (Scope) rule()         {}
func (Handle) rule()        {}
func (Port) rule()          {}
func (Grant) rule()         {}
func (Refuse) rule()        {}
func (RefuseIf) rule()      {}
func (Limit) rule()         {}
func (Budget) rule()        {}
func (Nice) rule()          {}
func (OOMScore) rule()      {}
func (PrivateMounts) rule() {}
func (OwnNetwork) rule()    {}
func (NoNewPrivs) rule()    {}
func (NotDumpable) rule()   {}

// String is the line of the policy.
func (r Outer) String() string { return "outer " + r.Name }

// String is the line of the policy.
func (r Scope) String() string { return "scope " + r.Name }

// String is the line of the policy.
func (r Handle) String() string { return "handle " + r.Name }

// String is the line of the policy.
func (r Port) String() string { return "tcp " + r.Name }

// String is the line of the policy.
func (r Grant) String() string { return string(r.Access) + " " + r.Path }

// String is the line of the policy.
func (r Refuse) String() string { return "call " + r.Call + " ENOSYS" }

// String is the line of the policy.
func (r RefuseIf) String() string {
	s := fmt.Sprintf("call %s EPERM if %s", r.Call, r.Match)
	for _, m := range r.If {
		s += " and " + m.String()
	}
	return s
}

// String is the line of the policy.
func (r Limit) String() string { return fmt.Sprintf("limit %s %d", r.Name, r.Value) }

// String is the line of the policy.
func (r Budget) String() string {
	return fmt.Sprintf("limit nproc: the account's tasks outside + MCP_MAX_PROCESSES (128 + 32 x cores), "+
		"at most the cgroup's limit - %d", PidsReserve)
}

// String is the line of the policy.
func (r Nice) String() string { return fmt.Sprintf("nice %d", r.Value) }

// String is the line of the policy.
func (r OOMScore) String() string { return fmt.Sprintf("flag oom_score_adj %d", r.Value) }

// String is the line of the policy.
func (PrivateMounts) String() string {
	return "mounts read-only but for /proc and what is granted to write"
}

// String is the line of the policy.
func (OwnNetwork) String() string { return "network loopback alone" }

// String is the line of the policy.
func (NoNewPrivs) String() string { return "flag no_new_privs" }

// String is the line of the policy.
func (NotDumpable) String() string { return "flag server not dumpable" }

// Op is how an argument is compared. Kernel arguments of the kinds compared
// here are 32 bits wide, whatever the high half of the register says.
type Op string

// The comparisons.
const (
	AnyBit Op = "&"      // any bit of any value is set
	In     Op = "in"     // equal to one of the values
	NotIn  Op = "not in" // equal to none of the values
)

// Match is a comparison of one argument (0 to 5) of a system call.
type Match struct {
	Arg    int
	Op     Op
	Values []uint32
}

// String prints the comparison with its values in hexadecimal.
func (m Match) String() string {
	var vals []string
	for _, v := range m.Values {
		vals = append(vals, fmt.Sprintf("%#x", v))
	}
	return fmt.Sprintf("argument %d %s {%s}", m.Arg, m.Op, strings.Join(vals, " "))
}

// Mask is all bits of all values, for AnyBit.
func (m Match) Mask() (mask uint32) {
	for _, v := range m.Values {
		mask |= v
	}
	return mask
}
