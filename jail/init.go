package jail

import (
	"runtime"

	"github.com/sallyport-dev/sallyport/jail/selftest"
	"github.com/sallyport-dev/sallyport/jail/stub"
)

// stageTrial counts the account's processes.
const stageTrial = "trial"

// stages are what a stub does for this program, besides becoming a command.
var stages = map[string]func() error{
	selftest.Files: selftest.TryFiles,
	selftest.Calls: selftest.TryCalls,
	stageTrial:     trial,
}

// What init does, the main thread does. Locking it keeps the main goroutine
// there, so that no command is ever started from the main thread: its domain
// would be the one that /proc/PID of the server shows.
//
// In a stub that comes to a stage, it goes on here and does not return.
func init() {
	runtime.LockOSThread()
	for {
		stage, isStub := stub.Stage()
		if !isStub {
			return
		}
		if err := stages[stage](); err != nil {
			stub.Fail(err)
		}
		stub.Continue()
	}
}
