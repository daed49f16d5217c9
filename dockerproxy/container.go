package main

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

const (
	callTime = 60 * time.Second // for one call of the daemon
	pullTime = 10 * time.Minute
)

// inspected is what the daemon says of one container.
type inspected struct {
	ID     string `json:"Id"`
	State  struct{ Status string }
	Config struct{ Labels map[string]string }
}

// inspect a container by id or name, and check both labels: nothing else is
// ever acted on.
func (p *proxy) inspect(ctx context.Context, name, server string) (*inspected, error) {
	var c inspected
	if err := p.docker.call(ctx, "GET", "/containers/"+name+"/json", nil, nil, &c); err != nil {
		return nil, err
	}
	owner, of := c.Config.Labels[container.LabelOwner], c.Config.Labels[container.LabelServer]
	if owner != p.instance || of != server || len(c.ID) < 12 {
		return nil, fmt.Errorf("the name %s is held by container %.12s of owner %.40q, server %.70q",
			container.Name(server, p.instance), c.ID, owner, of)
	}
	return &c, nil
}

// remove the server's container, by the id that the inspect returned. Nothing
// there is fine.
func (p *proxy) remove(ctx context.Context, name, server string) error {
	c, err := p.inspect(ctx, name, server)
	if isStatus(err, 404) {
		return nil
	} else if err != nil {
		return err
	}
	for range 50 {
		err = p.docker.call(ctx, "DELETE", "/containers/"+c.ID, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
		if !isStatus(err, 409) { // 409: its own removal is under way
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if isStatus(err, 404) {
		return nil
	}
	return err
}

// stop asks the server to end, then makes it; AutoRemove does the rest.
func (p *proxy) stop(ctx context.Context, id, server string) error {
	c, err := p.inspect(ctx, id, server)
	if err == nil && c.State.Status == "running" {
		p.docker.call(ctx, "POST", "/containers/"+c.ID+"/stop", url.Values{"t": {strconv.Itoa(container.StopSeconds)}},
			nil, nil)
	}
	return p.remove(ctx, id, server) // by force, and says what is wrong
}

// create makes a fresh container and returns its id. Names in the user are
// looked up in a first one, which never runs, and sent as numbers.
func (p *proxy) create(ctx context.Context, e *mcpjson.Entry, env, secrets map[string]string) (string, error) {
	image, err := p.image(ctx, &e.Container)
	if err != nil {
		return "", err
	}
	if err := p.checkVolumes(ctx, e.Container.Volumes); err != nil {
		return "", err
	}
	id, user, err := p.make(ctx, e, image, env, secrets)
	if err != nil || !mcpjson.Named(user) {
		return id, err
	}
	numbered := *e
	if numbered.Container.User, err = p.numbers(ctx, id, user); err != nil {
		return id, err
	}
	id, _, err = p.make(ctx, &numbered, image, env, secrets)
	return id, err
}

// make a container in place of what may be there, and say as whom it would run.
func (p *proxy) make(ctx context.Context, e *mcpjson.Entry, image container.Image, env, secrets map[string]string) (id,
	user string, err error) {
	name := container.Name(e.Name, p.instance)
	if err := p.remove(ctx, name, e.Name); err != nil {
		return "", "", err
	}
	body, err := container.Derive(e, image, p.instance, env, secrets)
	if err != nil {
		return "", "", err
	}
	var created struct{ Id string }
	if err := p.docker.call(ctx, "POST", "/containers/create", url.Values{"name": {name}}, body, &created); err != nil {
		return "", "", err
	}
	_, err = p.inspect(ctx, created.Id, e.Name)
	return created.Id, body["User"].(string), err
}

// numbers are what user[:group] means in the image. Docker itself would look
// names up when the container starts, and would give a bare one every group it
// is listed in, root's too. Whoever made the image wrote those files, so what
// cannot be read is refused.
func (p *proxy) numbers(ctx context.Context, id, user string) (string, error) {
	name, group, _ := strings.Cut(user, ":")
	uid, gid := name, group
	if mcpjson.Named(name) {
		row, err := p.row(ctx, id, "/etc/passwd", name)
		if err != nil {
			return "", err
		}
		if uid = row[2]; group == "" {
			gid = row[3]
		}
	}
	if mcpjson.Named(group) {
		row, err := p.row(ctx, id, "/etc/group", group)
		if err != nil {
			return "", err
		}
		gid = row[2]
	}
	numbers := uid + ":" + gid
	err := mcpjson.CheckUser(numbers)
	if err == nil && mcpjson.Named(numbers) {
		err = errors.New("these are no numbers")
	}
	if err != nil {
		return "", fmt.Errorf("user %s is %.40q in the image: %w", user, numbers, err)
	}
	return numbers, nil
}

// row finds a name in a file of the image whose rows are name:x:number:….
func (p *proxy) row(ctx context.Context, id, file, name string) ([]string, error) {
	archive, err := p.docker.open(ctx, "GET", "/containers/"+id+"/archive", url.Values{"path": {file}}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be looked up in the image, name a number: %w", name, err)
	}
	defer archive.Close()
	r := tar.NewReader(io.LimitReader(archive, 1<<20))
	if h, err := r.Next(); err != nil || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%s cannot be looked up in the image, name a number: %s is no plain file", name, file)
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if row := strings.Split(strings.TrimSpace(lines.Text()), ":"); len(row) > 3 && row[0] == name {
			return row, nil
		}
	}
	return nil, fmt.Errorf("the image has no %s in %s", name, file)
}

// image inspects the entry's image and fetches it where the entry says so.
func (p *proxy) image(ctx context.Context, c *mcpjson.DockerOptions) (container.Image, error) {
	var image struct {
		Id     string
		Config container.Image
	}
	err := p.docker.call(ctx, "GET", "/images/"+c.Image+"/json", nil, nil, &image)
	if isStatus(err, 404) {
		if c.Pull != "missing" {
			return image.Config,
				fmt.Errorf(`image %q is not present and "pull" is %q: build or pull it, or set "pull": "missing"`,
					c.Image, c.Pull)
		}
		if err = p.pull(ctx, c.Image); err == nil {
			err = p.docker.call(ctx, "GET", "/images/"+c.Image+"/json", nil, nil, &image)
		}
	}
	image.Config.ID = image.Id
	if err == nil && !strings.HasPrefix(image.Id, "sha256:") {
		err = fmt.Errorf("image %q has no id", c.Image)
	}
	return image.Config, err
}

// pull by digest where there is one, else by tag; without either Docker would
// fetch every tag.
func (p *proxy) pull(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	name, tag, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		if tag == "" {
			tag = name[i+1:]
		}
		name = name[:i]
	}
	if tag == "" {
		tag = "latest"
	}
	p.log.Info("pulling", "image", image)
	progress, err := p.docker.open(ctx, "POST", "/images/create", url.Values{"fromImage": {name}, "tag": {tag}}, nil)
	if err != nil {
		return fmt.Errorf("pulling image %q: %w", image, err)
	}
	defer progress.Close()
	var line struct{ Error string }
	for d := json.NewDecoder(progress); err == nil && line.Error == ""; {
		err = d.Decode(&line)
	}
	if line.Error != "" {
		return fmt.Errorf("pulling image %q: %.500s", image, line.Error)
	}
	if err != io.EOF {
		return fmt.Errorf("pulling image %q: %w", image, err)
	}
	return nil
}

// checkVolumes: an unknown volume would be made silently, and a volume
// can be a bind mount of any path in disguise.
func (p *proxy) checkVolumes(ctx context.Context, volumes []mcpjson.Volume) error {
	for _, v := range volumes {
		if !v.Named() {
			continue
		}
		var volume struct {
			Driver  string
			Options map[string]string
		}
		err := p.docker.call(ctx, "GET", "/volumes/"+v.Source, nil, nil, &volume)
		switch {
		case isStatus(err, 404):
			return fmt.Errorf("volume %q does not exist: make it with docker volume create %s", v.Source, v.Source)
		case err != nil:
			return err
		case volume.Driver != "local" || len(volume.Options) > 0:
			return fmt.Errorf("volume %q has driver %.40q with %d options; only plain local volumes are allowed",
				v.Source, volume.Driver, len(volume.Options))
		}
	}
	return nil
}

// owned lists the containers of this instance by server.
func (p *proxy) owned(ctx context.Context) (map[string]wire.State, error) {
	filter, _ := json.Marshal(map[string][]string{"label": {container.LabelOwner + "=" + p.instance}})
	var list []struct {
		Id, State string
		Labels    map[string]string
	}
	err := p.docker.call(ctx, "GET", "/containers/json", url.Values{"all": {"1"}, "filters": {string(filter)}}, nil,
		&list)
	all := map[string]wire.State{}
	for _, c := range list {
		if c.Labels[container.LabelOwner] == p.instance && c.Labels[container.LabelServer] != "" {
			all[c.Labels[container.LabelServer]] = wire.State{ID: c.Id, State: c.State}
		}
	}
	return all, err
}

// reap removes containers of this instance that no connection holds: what a
// crash, or a daemon that was away, has left behind.
func (p *proxy) reap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	all, err := p.owned(ctx)
	for server, c := range all {
		if p.claim(server, nil) != nil {
			continue
		}
		p.log.Info("removing leftover", "server", server, "container", c.ID)
		err = errors.Join(err, p.remove(ctx, c.ID, server))
		p.release(server)
	}
	return err
}
