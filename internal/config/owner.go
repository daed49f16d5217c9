package config

import (
	"fmt"
	"path/filepath"
)

// Owner are the settings by which a process records its calls and lets its
// owner see and stop them.
type Owner struct {
	AuditFile      string // "-" is stdout, "" is none
	AuditArguments bool   // also record the arguments, known secrets masked
	AnchorDir      string // where checkpoints are also written
	OwnerSocket    string // "" is none
	OwnerKeyFile   string
}

// Settings lists them.
func (o *Owner) Settings() []Setting {
	return []Setting{
		{Env: "MCP_AUDIT_FILE", Set: Text(&o.AuditFile),
			Help: "where every call is recorded, in a folder of its own; - for stdout (see docs/audit.md)"},
		{Env: "MCP_AUDIT_ARGUMENTS", Default: "false", Bool: true, Set: Switch(&o.AuditArguments),
			Help: "record the arguments of calls too, known secrets masked"},
		{Env: "MCP_ANCHOR_DIR", Set: Text(&o.AnchorDir),
			Help: "directory on another file system where signed checkpoints of the audit are also written"},
		{Env: "MCP_OWNER_SOCKET", Set: Text(&o.OwnerSocket),
			Help: "unix socket for sallyport approve, watch, ps, stop and pause (see docs/owner.md)"},
		{Env: "MCP_OWNER_KEY_FILE", Set: Text(&o.OwnerKeyFile),
			Help: "file with the key that MCP_OWNER_SOCKET asks for, 64 hex digits"},
	}
}

// Check adds what does not fit together.
func (o *Owner) Check(m *Mistakes) {
	if (o.OwnerSocket == "") != (o.OwnerKeyFile == "") {
		m.Add("MCP_OWNER_SOCKET and MCP_OWNER_KEY_FILE are given together or not at all: commands may run under the " +
			"same account, so the socket needs a key")
	}
	if o.AnchorDir != "" && (o.AuditFile == "" || o.AuditFile == "-") {
		m.Add("MCP_ANCHOR_DIR needs MCP_AUDIT_FILE, a file")
	}
	if o.AnchorDir != "" && filepath.Clean(o.AnchorDir) == filepath.Dir(filepath.Clean(o.AuditFile)) {
		m.AddError(fmt.Errorf("MCP_ANCHOR_DIR %q is the folder of the audit itself: anchors belong on another file "+
			"system", o.AnchorDir))
	}
}

// Private lists, by setting, the paths that no command may reach. A folder
// stands for all that lies in it.
func (o *Owner) Private() map[string]string {
	paths := map[string]string{"MCP_ANCHOR_DIR": o.AnchorDir, "MCP_OWNER_SOCKET": o.OwnerSocket,
		"MCP_OWNER_KEY_FILE": o.OwnerKeyFile}
	if o.AuditFile != "-" {
		paths["MCP_AUDIT_FILE"] = o.AuditFile
	}
	for setting, path := range paths {
		if path == "" {
			delete(paths, setting)
		}
	}
	return paths
}
