# Sallyport. `make` alone says what there is.

WORKSPACE ?= workspace
# As it was written, whatever quotes and dollars are in it: make expands what it exports.
unexport WORKSPACE
FOLDER_TO_SERVE = '$(subst ','\'',$(value WORKSPACE))'
HOSTS_TO_REACH  = '$(subst ','\'',$(value EGRESS))'
PORT      ?= 18080
PREFIX    ?= /usr/local
COMPOSE   ?= docker compose
BINARIES   = bin/sandboxd bin/sallyport bin/sallyport-run bin/sallyport-hub bin/sallyport-dockerproxy bin/sallyport-egress bin/sallyport-login

.DEFAULT_GOAL := help
.PHONY: help run compose up down env test test-quick e2e fuzz soak lint bench release install $(BINARIES)

help: ## Say what there is
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: bin/sallyport bin/sallyport-run ## Serve WORKSPACE (./workspace) on 127.0.0.1:18080: no Docker, no Traefik (PORT=18090: another port; EGRESS=go,npm,HOST: what commands may reach)
	@exec bin/sallyport-run -addr 127.0.0.1:$(PORT) -workspace $(FOLDER_TO_SERVE) -egress $(HOSTS_TO_REACH)

# docker without its Compose answers "up" with the whole of its own help.
compose:
	@$(COMPOSE) version >/dev/null 2>&1 || { echo 'This needs Docker with Compose 2.24 or newer, and "$(COMPOSE) version" fails here. Without Docker: make run' >&2; exit 1; }

up: compose env ## Start the whole stack with Docker Compose (LOGIN=https://HOST: with OAuth; EGRESS=go,npm,HOST: what commands may reach; off ends either)
	@[ "$(LOGIN)" != off ] || $(COMPOSE) --profile login rm --stop --force login
	@$(COMPOSE) up --detach --build --wait || { $(COMPOSE) logs --tail 20; exit 1; }
	@sh deploy/env.sh -show

down: compose ## Stop the stack
	@$(COMPOSE) down

env: $(if $(filter-out off,$(EGRESS)),bin/sallyport) ## Write .env and the tokens for the stack, once; never over what is there
	@WORKSPACE=$(FOLDER_TO_SERVE) LOGIN="$(LOGIN)" EGRESS=$(HOSTS_TO_REACH) sh deploy/env.sh

test-quick: ## Lint and unit tests, under 3 minutes
	@cd e2e && go run ./cmd/gates -quick

test: ## Everything that this machine can run, harmless to it
	@cd e2e && go run ./cmd/gates

e2e: ## Only the end-to-end tests: real Traefik, Docker, real clients
	@cd e2e && go run ./cmd/gates -only yaegi,main,edge,sandbox,hub,doctor,docker,conformance

fuzz: ## Fuzz every parser of foreign bytes, each for FOR (make fuzz FOR=10m)
	@cd e2e && go run ./cmd/gates -fuzz $(or $(FOR),1m)

soak: ## The long figures: hours of load; first everything mixed, for FOR (make soak FOR=10m), into docs/figures
	@cd e2e && go run ./cmd/gates -soak -for $(or $(FOR),10m)$(if $(ONLY), -only $(ONLY))

lint: ## gofmt, vet, staticcheck
	@cd e2e && go run ./cmd/gates -only gofmt,vet,staticcheck

bench: ## Figures beside the alternatives, into docs/figures (ONLY=hub,edge: these alone; SHORT=1: a smoke run)
	@cd e2e && go run ./cmd/bench -only "$(ONLY)" $(if $(SHORT),-short)

release: ## Binaries, images, SBOM and checksums in dist/VERSION (make release VERSION=v0.2.0)
	@cd e2e && go run ./cmd/release $(if $(VERSION),-version $(VERSION))

install: bin/sandboxd bin/sallyport bin/sallyport-egress ## Install sandboxd, sallyport, sallyport-egress, sallyport-login and the systemd units into PREFIX (/usr/local)
	@install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	@install -m 0755 bin/sandboxd bin/sallyport bin/sallyport-egress "$(DESTDIR)$(PREFIX)/bin"
	@for unit in sallyport sallyport-egress; do \
	sed 's|@PREFIX@|$(PREFIX)|' deploy/$$unit.service >"$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service"; done
	@[ -e /etc/sallyport/owner-key ] || echo 'The unit needs a key: install -d -m 0755 /etc/sallyport && "$(PREFIX)/bin/sallyport" token key /etc/sallyport/owner-key'
	@$(MAKE) --no-print-directory bin/sallyport-login || { echo "sallyport-login was not built (its modules come from the Go proxy); all else is installed"; exit 0; }; \
	install -m 0755 bin/sallyport-login "$(DESTDIR)$(PREFIX)/bin" && \
	sed 's|@PREFIX@|$(PREFIX)|' deploy/sallyport-login.service >"$(DESTDIR)$(PREFIX)/lib/systemd/system/sallyport-login.service"

# 0755 whatever the umask: started as root, the servers become another user and
# then start themselves again for each command.
# -buildvcs=false: git refuses a checkout of another user, and with it "sudo make run".
bin/sandboxd: FOLDER = sandboxd
bin/sallyport: FOLDER = owner
bin/sallyport-run: FOLDER = owner/run
bin/sallyport-hub: FOLDER = hub
bin/sallyport-dockerproxy: FOLDER = dockerproxy
bin/sallyport-egress: FOLDER = egress
# A module of its own, without a vendor folder: its modules come from the Go proxy.
bin/sallyport-login: FOLDER = login
bin/sallyport-login: MODULE = -C login
bin/sallyport-login: VENDOR = -mod=readonly
MODULE =
VENDOR = -mod=vendor
$(BINARIES):
	@CGO_ENABLED=0 go build $(MODULE) $(VENDOR) -trimpath -buildvcs=false -o "$(CURDIR)/$@" $(if $(MODULE),.,./$(FOLDER))
	@chmod 0755 bin $@
