# Sallyport. `make` alone says what there is.

WORKSPACE ?= workspace
PREFIX    ?= /usr/local
COMPOSE   ?= docker compose

.DEFAULT_GOAL := help
.PHONY: help run up down env test e2e soak lint bench install bin/sandboxd

help: ## Say what there is
	@awk -F':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: bin/sandboxd ## Serve WORKSPACE (./workspace) on 127.0.0.1:18080: no Docker, no Traefik
	@bin/sandboxd local -workspace "$(WORKSPACE)"

up: env ## Start the whole stack with Docker Compose: Traefik, the plugin, sandboxd
	@$(COMPOSE) up --detach --build --wait || { $(COMPOSE) logs --tail 20; exit 1; }
	@sh deploy/env.sh -show

down: ## Stop the stack
	@$(COMPOSE) down

env: ## Write .env and the tokens for the stack, once; never over what is there
	@WORKSPACE="$(WORKSPACE)" sh deploy/env.sh

test: ## Everything that this machine can run, harmless to it
	@cd e2e && go run ./cmd/gates

e2e: ## Only the end-to-end tests: real Traefik, Docker, real clients
	@cd e2e && go run ./cmd/gates -only yaegi,main,edge,sandbox,hub,doctor,docker,conformance

soak: ## The long figures: hours of load, thousands of sessions
	@cd e2e && go run ./cmd/gates -soak

lint: ## gofmt, vet, staticcheck
	@cd e2e && go run ./cmd/gates -only gofmt,vet,staticcheck

bench: ## Figures, reported and never asserted: beside the alternative, in one run
	@go test -run '^$$' -bench . ./...
	@cd e2e && go test -tags bench -count=1 -timeout 30m -v -run Bench -bench . ./...

install: bin/sandboxd ## Install sandboxd and its systemd unit into PREFIX (/usr/local)
	@install -D -m 0755 bin/sandboxd "$(DESTDIR)$(PREFIX)/bin/sandboxd"
	@install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	@sed 's|@PREFIX@|$(PREFIX)|' deploy/sallyport.service >"$(DESTDIR)$(PREFIX)/lib/systemd/system/sallyport.service"

# 0755 whatever the umask: started as root, sandboxd becomes another user and
# then starts itself again for each command.
# -buildvcs=false: git refuses a checkout of another user, and with it "sudo make run".
bin/sandboxd:
	@CGO_ENABLED=0 go build -mod=vendor -trimpath -buildvcs=false -o $@ ./sandboxd
	@chmod 0755 bin $@
