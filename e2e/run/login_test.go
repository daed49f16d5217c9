package run_test

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// make env LOGIN=https://HOST is kept, written once into login.json, and LOGIN=off takes
// it back; other parts of COMPOSE_PROFILES stay.
func TestEnvLogin(t *testing.T) {
	c := rig.NewCheckout(t, 1000)
	c.Make("env")
	if env := c.Read(".env"); strings.Contains(env, "LOGIN") {
		t.Errorf("login without being asked:\n%s", env)
	}
	if out, err := c.Command("sh", "-c", "echo COMPOSE_PROFILES=hub >>.env").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	c.Make("env", "LOGIN=https://node.example")
	c.Make("env")
	if env := c.Read(".env"); !strings.Contains(env, "\nSALLYPORT_LOGIN=https://node.example") || !strings.Contains(env, "COMPOSE_PROFILES=hub,login") {
		t.Errorf("not kept:\n%s", env)
	}
	if config := c.Read("config/login.json"); !strings.Contains(config, `"issuer": "https://node.example/mcp-login"`) || strings.Contains(config, "@") {
		t.Errorf("login.json:\n%s", config)
	}
	for value, want := range map[string]string{
		"https://other.example": "another issuer", "http://node.example": "write https://HOST", "https://node.example/": "write https://HOST",
		"https://Node.example": "write https://HOST", "on": "write https://HOST",
	} {
		if out, err := c.Command("make", "env", "LOGIN="+value).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("LOGIN=%s: %v\n%s", value, err, out)
		}
	}
	c.Make("env", "LOGIN=off")
	if env := c.Read(".env"); strings.Contains(env, "LOGIN") || !strings.Contains(env, "COMPOSE_PROFILES=hub") || strings.Contains(env, "login") {
		t.Errorf("not off:\n%s", env)
	}
}
