package serve

import "context"

// SweepPrivate removes what killed servers left in a directory.
var SweepPrivate = sweepPrivate

// HoldAtMost sets how many bytes the calls under way may have.
func (s *Server) HoldAtMost(n int64) { s.maxHeld = n }

// Indirect sends every call through the SDK's connection.
func (s *Server) Indirect() { s.indirect = true }

// Gitdir is where a workspace's .git leads, if it is a linked worktree's.
var Gitdir = gitdir

// Surprises are what the start says about a workspace and its private directories.
func Surprises(workspace, private string) []string { return surprises(workspace, private) }

// Reports logs modes that were changed back.
var Reports = reports

// KeptDir is where private directories stay that the owner named a place for.
func KeptDir(chosen string, container bool) (string, error) {
	b := &Box{}
	defer b.Close()
	return b.keptDir(chosen, container)
}

// Turn waits as a call of a tool does before it begins.
func (s *Server) Turn(tool string, gone context.Context) (leave func()) {
	return s.turn(tool, &message{gone: gone})
}
