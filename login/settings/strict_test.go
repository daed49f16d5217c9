package settings

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/config"
)

// What could be read in two ways is no configuration; without the flaw the same
// file is.
func TestConfigIsReadStrictly(t *testing.T) {
	const good = `{"issuer":"https://h.example/mcp-login","resources":[{"url":"https://h.example/mcp","grants":["read_file"]}]}`
	for flaw, raw := range map[string]string{
		"":                       good,
		"twice":                  strings.Replace(good, `"resources"`, `"issuer":"https://e.example","resources"`, 1),
		`it is spelled "grants"`: strings.Replace(good, `"grants"`, `"Grants":["*"],"grants"`, 1),
		"not a known field":      strings.Replace(good, `"grants"`, `"tools":["*"],"grants"`, 1),
		"surrogate":              strings.Replace(good, `read_file`, `\ud800`, 1),
		"after top-level value":  good + "{}",
	} {
		var c Config
		m := &config.Mistakes{}
		c.parse([]byte(raw), m)
		err := m.Err()
		if flaw == "" && err != nil || flaw != "" && (err == nil || !strings.Contains(err.Error(), flaw)) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
