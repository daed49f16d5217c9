package service_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/service"
)

// Whoever asks for the status without a pause does not keep the hub at it; what
// they see is at most a fifth of a second old.
func TestStatusIsThrottled(t *testing.T) {
	b := start(t, map[string]string{"s": `{"type":"unix","socket":"/nowhere"}`}, nil)
	ask := func() string {
		resp := b.do("GET", "/status", "", nil)
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || !strings.Contains(string(body), `"s"`) {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		return string(body)
	}
	begin := time.Now()
	for range 300 {
		ask()
	}
	most := 1 + int(time.Since(begin)/(200*time.Millisecond))
	if n := service.Looks(b.Hub); n > most || n < 1 {
		t.Errorf("300 requests in %v made the hub look %d times", time.Since(begin), n)
	}
	b.write(map[string]string{"s": `{"type":"unix","socket":"/nowhere"}`, "late": `{"type":"docker"}`})
	eventually(t, "twin: news is seen", func() bool { return strings.Contains(ask(), `"late"`) })
}
