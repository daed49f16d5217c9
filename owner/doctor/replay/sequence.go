// Package replay walks the steps of one MCP client against a public URL, from
// outside: discovery, registration, consent, tokens and first calls. It stops at
// the first answer that this client would stumble over, and says why.
//
// The steps are data (clients/*.json), the same for "sallyport doctor -as" and for
// the tests. Each names its source, and says where no recording of the client
// exists and the step was reconstructed from documents, reports or source code.
package replay

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// Sequence is what one client does, in order.
type Sequence struct {
	Client    string   `json:"client"`    // its name for -as
	Name      string   `json:"name"`      // as people know it
	Agent     string   `json:"agent"`     // its User-Agent
	Public    bool     `json:"public"`    // it connects from its maker's network: port 443 of a public address
	Redirects []string `json:"redirects"` // redirect URIs; the first is used; {port} is a free one
	Steps     []Step   `json:"steps"`
}

// Step is one step. What a field means for a step stands at its function.
type Step struct {
	Do            string         `json:"do"` // a key of actions
	Source        string         `json:"source"`
	Reconstructed bool           `json:"reconstructed"`       // no recording exists
	Places        []string       `json:"places,omitempty"`    // where a document is looked for, in order
	Strict        bool           `json:"strict,omitempty"`    // compares byte for byte
	First         bool           `json:"first,omitempty"`     // some versions look at the first place only
	Document      string         `json:"document,omitempty"`  // the client's metadata document (CIMD)
	Metadata      map[string]any `json:"metadata,omitempty"`  // what that document says
	Assertion     bool           `json:"assertion,omitempty"` // with it, the client signs with a key of its own
	Body          map[string]any `json:"body,omitempty"`      // of the registration; redirect_uris are added
	Times         int            `json:"times,omitempty"`     // how often, one after the other
	Repeat        int            `json:"repeat,omitempty"`    // how often the same refresh token is sent
	Together      bool           `json:"together,omitempty"`  // at once, instead of after a lost answer
	Scope         string         `json:"scope,omitempty"`     // advertised: everything of the issuer; challenge; none
	Extra         string         `json:"extra,omitempty"`     // scopes that it asks for though nobody listed them
	Resource      bool           `json:"resource,omitempty"`  // sends resource (RFC 8707)
	// refuses an answer without the advertised iss (RFC 9207)
	NeedsIssuer bool `json:"iss,omitempty"`
	NoNulls     bool `json:"no_nulls,omitempty"`    // cannot read null members
	AllOrNone   bool `json:"all_or_none,omitempty"` // needs every redirect URI that it registers
}

//go:embed clients/*.json
var files embed.FS

// Clients are the names that Load knows.
func Clients() []string {
	entries, _ := files.ReadDir("clients")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Load reads the sequence of a client.
func Load(client string) (*Sequence, error) {
	raw, err := files.ReadFile(path.Join("clients", client+".json"))
	if err != nil {
		return nil, fmt.Errorf("there is no client %q: one of %s", client, strings.Join(Clients(), ", "))
	}
	return parse(raw)
}

func parse(raw []byte) (*Sequence, error) {
	s := &Sequence{}
	if err := strictjson.Into(raw, s); err != nil {
		return nil, err
	}
	for _, step := range s.Steps {
		if actions[step.Do] == nil || step.Source == "" {
			return nil, fmt.Errorf("%s: step %q is not known, or has no source", s.Client, step.Do)
		}
	}
	return s, nil
}
