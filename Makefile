# Needs Go; test, tools, conformance and interop also need Node 20 or newer with npm. scripts/tools installs the rest into .tools/.
# The package pattern "work" means every package of every module that go.work ties together.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

GO          ?= go
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
PLATFORMS   := linux darwin windows
# Which benchmarks, and where: make bench BENCH=Echo PACKAGES=./bench/...
BENCH       ?= .
PACKAGES    ?= work
# For the conformance runner: make conformance FLAGS='-leg client-all'
FLAGS       ?= -race

# govulncheck is left out: it asks a vulnerability database on the network, and what the tests say must
# depend on this checkout alone.

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: tools cross ## Everything that must hold before a change lands
	$(GO) test -race -shuffle=on -tags=integration -timeout=8m work
	$(GO) test ./bench # the allocation gates, which the race detector would upset
	$(MAKE) --no-print-directory conformance

.PHONY: tools
tools: ## Install the pinned tools into .tools/, if they are not there
	@scripts/tools

.PHONY: cross
cross: ## Build and vet every module for every platform
	@set -e; for os in $(PLATFORMS); do \
		echo "build and vet for $$os"; \
		GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null work; \
		GOOS=$$os CGO_ENABLED=0 $(GO) vet -tags=integration,browser work; \
	done

.PHONY: lint
lint: cross ## gofmt, go vet, staticcheck and the house rules
	@unformatted=$$(find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt -l -s); \
	if [[ -n $$unformatted ]]; then echo "gofmt -s would change:"; echo "$$unformatted"; exit 1; fi
	$(STATICCHECK) -tags=integration,browser work
	$(GO) test ./internal/house/...

.PHONY: conformance
conformance: tools ## The official conformance suite, server and client, against its baseline
	$(GO) run ./conformance/run $(FLAGS)

.PHONY: interop
interop: tools ## The TypeScript SDKs and servers against ours, both ways
	$(GO) test -race -count=1 -tags=integration -timeout=5m ./interop/...

.PHONY: test-browser
test-browser: ## Logins in a real browser; installs Debian's Chromium where it is missing
	@scripts/browser
	$(GO) test -race -count=1 -tags=browser -timeout=5m -run='^TestLoginsInABrowser$$' ./cmd/parley

.PHONY: bench
bench: ## Benchmarks (BENCH=regexp, PACKAGES=pattern)
	$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem $(PACKAGES)

.PHONY: clean
clean: ## Remove the tools and all output
	rm -rf .tools .out interop/npm/node_modules
