package files_test

import (
	"slices"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

func TestParseProtected(t *testing.T) {
	for value, want := range map[string][]string{
		"none":                        {},
		"default":                     files.DefaultProtected,
		"default, deploy/*.yml":       append(slices.Clone(files.DefaultProtected), "deploy/*.yml"),
		"secrets/":                    {"secrets"},
		"/Makefile,.github/workflows": {"Makefile", ".github/workflows"},
	} {
		got, err := files.ParseProtected(value)
		if err != nil || got == nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	for _, value := range []string{"", " ", ",", "a,", "none,a", "a,none", "..", "../a", ".", "a//b", "a/../b", "[a"} {
		if got, err := files.ParseProtected(value); err == nil {
			t.Errorf("%q gave %v", value, got)
		}
	}
}
