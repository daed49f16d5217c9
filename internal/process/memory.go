package process

import (
	"os"
	"runtime/debug"
)

// Busy is the GOGC of a process that uses the SDK, which makes about 300 KiB of
// garbage for each call: the collector's work on a small heap is most of a call's
// cost, and 400 gives about 1.7 times the calls per second.
const Busy = 400

// TuneMemory trades a little memory for speed unless GOGC or GOMEMLIMIT say
// otherwise: percent is GOGC, and the heap grows to 4 MiB times a hundredth of it
// before it is first collected. The soft limit keeps that from growing into the
// memory that a container shares with its commands.
func TuneMemory(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(256 << 20)
	}
}
