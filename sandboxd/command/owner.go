package command

// Line is the command as it was given to the shell.
func (c *Command) Line() string { return c.line }

// Tail is the end of what the command has written, at most this many bytes of
// each stream.
func (c *Command) Tail(bytes int) (stdout, stderr string) {
	stdout, _, _ = c.Stdout.Page(max(0, c.Stdout.Size()-int64(bytes)), bytes, true)
	stderr, _, _ = c.Stderr.Page(max(0, c.Stderr.Size()-int64(bytes)), bytes, true)
	return stdout, stderr
}

// Tell is what find has to say of the ended command; only the first find is asked.
func (c *Command) Tell(find func() []string) []string {
	c.once.Do(func() { c.told = find() })
	return c.told
}

// Stop ends the command and all that it started: now, or after SIGTERM and the
// jail's grace.
func (c *Command) Stop(now bool) {
	if now {
		c.process.Kill()
	} else {
		c.process.Stop()
	}
}

// Owners is the command as the owner has it: what the owner stops is remembered.
type Owners struct{ *Command }

// Stop is Command.Stop, and OwnerStopped is true from now on.
func (o Owners) Stop(now bool) {
	o.byOwner.Store(true)
	o.Command.Stop(now)
}

// OwnerStopped reports whether the owner has stopped the command.
func (c *Command) OwnerStopped() bool { return c.byOwner.Load() }
