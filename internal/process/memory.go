package process

import (
	"os"
	"runtime/debug"
)

// TuneMemory trades a little memory for speed unless GOGC or GOMEMLIMIT say
// otherwise. The SDK makes about 300 KiB of garbage for each call, and the
// collector's work on a small heap is most of a call's cost: GOGC=400 gives
// about 1.7 times the calls per second. The soft limit keeps that from growing
// into the memory that a container shares with its commands.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(256 << 20)
	}
}
