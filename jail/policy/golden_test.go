package policy_test

import (
	"os"
	"testing"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// The whole policy is committed, so that a change of it is a change to read.
func TestGoldenPolicy(t *testing.T) {
	for name, cfg := range map[string]policy.Config{
		"bare":              {Mode: policy.Full, Network: policy.None, Writable: []string{"/srv/workspace"}},
		"container":         {Mode: policy.Full, Network: policy.None, InContainer: true, Writable: []string{"/workspace"}},
		"container-network": {Mode: policy.Full, Network: policy.Container, InContainer: true, Writable: []string{"/workspace"}},
		"group":             {Mode: policy.Group},
	} {
		path := "testdata/policy-" + name + ".txt"
		want, err := os.ReadFile(path)
		if err != nil && os.Getenv("UPDATE_GOLDEN") == "" {
			t.Fatal(err)
		}
		if got := cfg.String(); got != string(want) {
			if os.Getenv("UPDATE_GOLDEN") != "" {
				os.WriteFile(path, []byte(got), 0o644)
			}
			t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it):\n%s", path, got)
		}
	}
}
