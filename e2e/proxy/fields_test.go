package proxy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	moby "github.com/moby/moby/api/types/container"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

const whole = `{"type": "docker", "image": "img", "volumes": ["/srv/a:/a", "data:/b"], "network": "net", "ports": ["1:2"], "tmpfs": ["/c"]}`

// absent are the fields that a create request of ours leaves out, and why.
var absent = map[string]string{
	"Healthcheck.Interval": noCheck, "Healthcheck.Timeout": noCheck, "Healthcheck.StartPeriod": noCheck,
	"Healthcheck.StartInterval": noCheck, "Healthcheck.Retries": noCheck,
	"HostConfig.Mounts.Consistency":                "of Docker Desktop",
	"HostConfig.Mounts.ImageOptions":               "of another type of mount, which could be refused with it",
	"HostConfig.Mounts.TmpfsOptions":               "of another type of mount",
	"HostConfig.Mounts.ClusterOptions":             "of another type of mount",
	"HostConfig.Mounts.VolumeOptions.DriverConfig": "would choose a driver; the volume exists and was inspected",
}

const noCheck = "there is no health check"

// TestEveryFieldIsDecided: each field of the API's create request is in ours,
// so no daemon's default and no image decides. A release of the API with a
// new field fails here until somebody has decided.
func TestEveryFieldIsDecided(t *testing.T) {
	body := createRequest(t)
	count := 0
	var walk func(at string, kind reflect.Type, value any)
	walk = func(at string, kind reflect.Type, value any) {
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			if list, ok := value.([]any); ok {
				for _, one := range list {
					walk(at, kind.Elem(), one)
				}
				return
			}
			kind = kind.Elem()
		}
		fields, ok := value.(map[string]any)
		if kind.Kind() != reflect.Struct || !ok {
			return
		}
		for _, f := range reflect.VisibleFields(kind) {
			if f.Anonymous || !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			path := strings.TrimPrefix(at+"."+name, ".")
			inner, found := fields[name]
			if count++; !found && absent[path] == "" && !otherMount(path, fields) {
				t.Errorf("%s is not decided", path)
			}
			walk(path, f.Type, inner)
		}
	}
	walk("", reflect.TypeFor[moby.CreateRequest](), body)
	if count < 120 {
		t.Errorf("only %d fields found: this test reads the types wrongly", count)
	}
	t.Logf("%d fields", count)
}

// otherMount: a bind mount has no volume options and the other way round.
func otherMount(path string, mount map[string]any) bool {
	return (path == "HostConfig.Mounts.VolumeOptions" && mount["Type"] == "bind") ||
		(path == "HostConfig.Mounts.BindOptions" && mount["Type"] == "volume")
}

// TestTheAPIUnderstandsIt: our names and types are the API's.
func TestTheAPIUnderstandsIt(t *testing.T) {
	body := createRequest(t)
	delete(body, "MacAddress") // gone from the API's newest version, so it is ignored there
	data, _ := json.Marshal(body)
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	var request moby.CreateRequest
	if err := d.Decode(&request); err != nil {
		t.Fatal(err)
	}
	h := request.HostConfig
	if h.Privileged || !h.AutoRemove || !request.StdinOnce || h.MaskedPaths != nil || h.ReadonlyPaths != nil || h.Init == nil || *h.Init ||
		h.PidsLimit == nil || *h.PidsLimit != 256 || len(h.Mounts) != 2 || fmt.Sprint(h.CapDrop) != "[ALL]" {
		t.Errorf("%+v", request)
	}
}

func createRequest(t *testing.T) map[string]any {
	t.Helper()
	c, err := mcpjson.Parse([]byte(`{"mcpServers": {"s": ` + whole + `}}`))
	if err != nil || c.Servers["s"] == nil {
		t.Fatal(err, c)
	}
	body, err := container.Derive(c.Servers["s"], container.Image{ID: "sha256:x"}, "i", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(body)
	var read map[string]any
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestNoFieldCanBeSaid: each field of the create request, alone, in an
// otherwise good entry and in an otherwise good request of the hub, under
// three spellings: nowhere is there a place for it.
func TestNoFieldCanBeSaid(t *testing.T) {
	names := map[string]bool{"HostConfig": true, "NetworkingConfig": true}
	for _, kind := range []reflect.Type{reflect.TypeFor[moby.Config](), reflect.TypeFor[moby.HostConfig]()} {
		for _, f := range reflect.VisibleFields(kind) {
			if !f.Anonymous {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				names[name], names[f.Name] = name != "", true
			}
		}
	}
	// The entry's own words that happen to be an API field in lower case; they
	// mean what docs/mcp-json.md says and are checked there.
	own := map[string]bool{"image": true, "env": true, "entrypoint": true, "volumes": true, "user": true, "memory": true, "tmpfs": true, "pidsLimit": true}
	tried := 0
	for name, use := range names {
		if !use {
			continue
		}
		lower := strings.ToLower(name[:1]) + name[1:]
		for _, key := range []string{name, lower, strings.ToLower(name)} {
			value, _ := json.Marshal(createRequest(t)[name])
			if string(value) == "null" {
				value = []byte("true")
			}
			if !own[key] {
				entry := `{"type": "docker", "image": "img", "` + key + `": ` + string(value) + `}`
				c, err := mcpjson.Parse([]byte(`{"mcpServers": {"s": ` + entry + `}}`))
				if err != nil || c.Broken["s"] == nil {
					t.Errorf("an entry with %s is accepted: %v", key, err)
				}
				tried++
			}
			line := `{"verb":"ensure","server":"s","hash":"00","` + key + `":` + string(value) + `}`
			if key != "env" {
				if _, err := wire.ParseRequest([]byte(line)); err == nil {
					t.Errorf("a request with %s is accepted", key)
				}
			}
		}
	}
	if tried < 250 {
		t.Errorf("only %d tried: this test reads the types wrongly", tried)
	}
}
