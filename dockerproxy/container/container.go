// Package container derives the whole create request of a docker entry, for the
// policy proxy and for "sallyport plan", which prints it.
package container

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// The labels that mark a container as ours. Only containers whose two labels
// match are ever touched.
const (
	LabelOwner  = "dev.sallyport.owner"  // the instance
	LabelServer = "dev.sallyport.server" // the name in mcp.json
)

// DefaultInstance is the instance that container names do not mention.
const DefaultInstance = "sallyport"

// StopSeconds that a server has between SIGTERM and SIGKILL.
const StopSeconds = 5

const defaultUser = "65532:65532"

// Image is what the daemon says about the entry's image.
type Image struct {
	ID         string // sha256:…, what the container is made from
	User       string
	Entrypoint []string
	Cmd        []string
	Env        []string
	WorkingDir string
	Volumes    map[string]struct{}
	Labels     map[string]string
}

// Name of the container of a server. Server names have no dot, so an instance can
// never be taken for a part of one.
func Name(server, instance string) string {
	if instance != DefaultInstance {
		server += "." + instance
	}
	return "mcp-sandbox-" + server
}

// Derive returns the whole body of POST /containers/create for a docker
// entry. env holds the values of exactly the entry's env keys, secrets the
// further variables. The error says why the image cannot be used.
func Derive(e *mcpjson.Entry, image Image, instance string, env, secrets map[string]string) (map[string]any, error) {
	c := &e.Container
	user := c.User
	if user == "" {
		user = image.User
	}
	if user == "" || user == ":" {
		user = defaultUser
	}
	if !mcpjson.Named(user) && !strings.Contains(user, ":") {
		user += ":" + user // Docker would look the group up, and take root's where it finds none
	}
	if err := mcpjson.CheckUser(user); err != nil {
		return nil, fmt.Errorf("the user of image %q: %w", c.Image, err)
	}
	tmpfs, err := mountTmpfs(c, image.Volumes, user)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", c.Image, err)
	}
	entrypoint, command := c.Entrypoint, c.Command
	if entrypoint == nil {
		entrypoint = image.Entrypoint
		if command == nil {
			command = image.Cmd
		}
	}
	ports, bindings := publish(c.Ports)
	body := common()
	maps.Copy(body, map[string]any{
		"Image": image.ID, "User": user, "WorkingDir": path.Join("/", image.WorkingDir),
		"Entrypoint": list(entrypoint), "Cmd": list(command), "Env": environment(image.Env, env, secrets),
		"ExposedPorts": ports, "Labels": labels(image.Labels, e.Name, instance),
	})
	maps.Copy(body["HostConfig"].(map[string]any), map[string]any{
		"Memory": c.Memory, "MemorySwap": c.Memory, "NanoCpus": c.NanoCPUs, "PidsLimit": c.PidsLimit,
		"ReadonlyRootfs": c.ReadOnly, "NetworkMode": c.Network, "PortBindings": bindings,
		"Mounts": mounts(c.Volumes), "Tmpfs": tmpfs,
	})
	return body, nil
}

// common is the part of the body that is the same for every container. Every
// field of API 1.57 is written here or by Derive, also where the value is
// the daemon's default, so that no default of a newer daemon and nothing in an
// image decides. A null stands where only the daemon knows the right value.
func common() map[string]any {
	none, empty := []string{}, map[string]any{}
	return map[string]any{
		"Hostname": "sandbox", "Domainname": "", "MacAddress": "",
		"AttachStdin": true, "AttachStdout": true, "AttachStderr": true,
		"OpenStdin": true, "StdinOnce": true, "Tty": false, // stdin closes with its one client
		"ArgsEscaped": false, "NetworkDisabled": false, "Volumes": empty, "OnBuild": none, "Shell": none,
		"Healthcheck": map[string]any{"Test": []string{"NONE"}},
		"StopSignal":  "SIGTERM", "StopTimeout": StopSeconds,
		"NetworkingConfig": map[string]any{"EndpointsConfig": empty}, // NetworkMode alone decides
		"HostConfig": map[string]any{
			"CapAdd": none, "CapDrop": []string{"ALL"}, "Privileged": false,
			"SecurityOpt": []string{"no-new-privileges"},
			"IpcMode":     "private", "CgroupnsMode": "private", "PidMode": "", "UTSMode": "", "UsernsMode": "",
			"AutoRemove": true, "RestartPolicy": map[string]any{"Name": "no", "MaximumRetryCount": 0},
			"LogConfig":   map[string]any{"Type": "none", "Config": empty}, // no conversation on the disk
			"MaskedPaths": nil, "ReadonlyPaths": nil,                       // null: the daemon's lists; [] would unmask
			"Ulimits": []map[string]any{{"Name": "core", "Soft": 0, "Hard": 0},
				{"Name": "nofile", "Soft": 1024, "Hard": 4096}},
			"ShmSize": 64 << 20, "Umask": 0o022, "Init": false, "OomKillDisable": false, "OomScoreAdj": 0,
			"MemoryReservation": 0, "MemorySwappiness": nil, // cgroup v2 knows no swappiness
			"Binds": none, "VolumesFrom": none, "VolumeDriver": "", "GroupAdd": none, "Links": none, "ExtraHosts": none,
			"Dns": none, "DnsOptions": none, "DnsSearch": none, "PublishAllPorts": false, "ContainerIDFile": "",
			"Devices": none, "DeviceRequests": none, "DeviceCgroupRules": none, "Sysctls": empty, "StorageOpt": empty,
			"Annotations": empty, "Runtime": "", "Isolation": "", "ConsoleSize": []int{0, 0}, "Cgroup": "",
			"CgroupParent": "",
			"CpuShares":    0, "CpuPeriod": 0, "CpuQuota": 0, "CpuRealtimePeriod": 0, "CpuRealtimeRuntime": 0,
			"CpusetCpus": "", "CpusetMems": "", "CpuCount": 0, "CpuPercent": 0, "IOMaximumIOps": 0,
			"IOMaximumBandwidth": 0,
			"BlkioWeight":        0, "BlkioWeightDevice": none, "BlkioDeviceReadBps": none, "BlkioDeviceWriteBps": none,
			"BlkioDeviceReadIOps": none, "BlkioDeviceWriteIOps": none,
		},
	}
}

// mountTmpfs adds a tmpfs over each volume that the image declares: Docker
// would make a writable volume on the host's disk there. Each belongs to the
// user, if that is a number: runc gives it the mode of the image's folder.
func mountTmpfs(c *mcpjson.DockerOptions, volumes map[string]struct{}, user string) (map[string]string, error) {
	all := map[string]string{}
	maps.Copy(all, c.Tmpfs)
	for target := range volumes {
		target = path.Clean(target)
		if err := mcpjson.CheckTarget(target); err != nil {
			return nil, fmt.Errorf("declares a volume that cannot be covered: %w", err)
		}
		taken := slices.ContainsFunc(c.Volumes, func(v mcpjson.Volume) bool { return v.Target == target })
		if _, found := all[target]; !found && !taken {
			all[target] = mcpjson.TmpfsDefault
		}
	}
	uid, gid, _ := strings.Cut(user, ":")
	for _, id := range [][2]string{{",uid=", uid}, {",gid=", gid}} {
		for target := range all {
			if id[1] != "" && !mcpjson.Named(id[1]) && !strings.Contains(all[target], id[0]) {
				all[target] += id[0] + id[1]
			}
		}
	}
	return all, nil
}

// mounts are used instead of HostConfig.Binds, which would make a missing
// source a new directory of root's; here it is an error.
func mounts(volumes []mcpjson.Volume) []any {
	all := []any{}
	for _, v := range volumes {
		m := map[string]any{"Type": "bind", "Source": v.Source, "Target": v.Target, "ReadOnly": v.ReadOnly}
		if v.Named() { // it exists, so no driver is named
			m["Type"], m["VolumeOptions"] = "volume",
				map[string]any{"NoCopy": false, "Labels": map[string]string{}, "Subpath": ""}
		} else {
			m["BindOptions"] = map[string]any{"Propagation": "rprivate", "NonRecursive": false,
				"CreateMountpoint":     false,
				"ReadOnlyNonRecursive": false, "ReadOnlyForceRecursive": false}
		}
		all = append(all, m)
	}
	return all
}

func publish(ports []mcpjson.Port) (exposed map[string]struct{}, bindings map[string][]map[string]string) {
	exposed, bindings = map[string]struct{}{}, map[string][]map[string]string{}
	for _, p := range ports {
		key := strconv.Itoa(p.Container) + "/" + p.Proto
		exposed[key] = struct{}{}
		bindings[key] = append(bindings[key], map[string]string{"HostIp": p.IP, "HostPort": strconv.Itoa(p.Host)})
	}
	return exposed, bindings
}

// labels blanks every label of the image (one of another program, such as a
// reverse proxy or an updater, would act on the sandbox) and adds ours.
func labels(image map[string]string, server, instance string) map[string]string {
	all := make(map[string]string, len(image)+4)
	for key := range image {
		all[key] = ""
	}
	all["traefik.enable"], all["com.centurylinklabs.watchtower.enable"] = "false", "false"
	all[LabelOwner], all[LabelServer] = instance, server
	return all
}

// loader variables of an image run foreign code in every program.
var loader = []string{"LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES"}

// environment is NAME=value for what the container is given, and a bare NAME,
// with which Docker takes a variable of the image away.
func environment(image []string, env, secrets map[string]string) []string {
	all := []string{}
	for _, from := range []map[string]string{env, secrets} {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			all = append(all, key+"="+from[key])
		}
	}
	for _, pair := range image {
		key, _, _ := strings.Cut(pair, "=")
		_, own := env[key]
		_, secret := secrets[key]
		if slices.Contains(loader, key) && !own && !secret {
			all = append(all, key)
		}
	}
	return all
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
