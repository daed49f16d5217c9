package publicdial

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/netclass"
)

// What leads to this machine is refused before anything is sent; the twin without the
// table of addresses is connected. Names that lead there are tried in login and egress,
// whose tests have a DNS server of their own.
func TestPublicAddressesOnly(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	at := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))
	for _, host := range []string{"localhost", "127.0.0.1", "2130706433", "0x7f000001"} {
		resp, err := Client(10 * time.Second).Get(strings.Replace(server.URL, "127.0.0.1", host, 1))
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || asked != 0 {
			t.Errorf("%s was asked", host)
		}
	}
	// The second address is tried when the first fails.
	conn, err := Dial(t.Context(), []netip.Addr{netip.MustParseAddr("127.0.0.2"), at.Addr()}, at.Port(), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := Dial(t.Context(), []netip.Addr{at.Addr()}, at.Port(), netclass.Control); err == nil {
		t.Error("dialled")
	}
}
