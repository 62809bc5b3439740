# All targets need Go. The targets test, tools, conformance and interop also need Node 20 or newer with npm;
# scripts/tools installs the rest into .tools/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PLATFORMS   := linux darwin windows
# The benchmarks to run: make bench BENCH=Echo PACKAGES=./bench/...
BENCH       ?= .
PACKAGES    ?= work
# What to fuzz, and for how long each target: make fuzz FUZZ=SSE FUZZTIME=1m PACKAGES=./internal/httpcodec
FUZZ        ?= .
FUZZTIME    ?= 10s
# Every package of every module in go.work, except those whose dependencies take minutes to compile: test-all has them.
WORK         = $$($(GO) list -tags=integration work | grep -v /parley/sampler)
# How long to inject faults, shared by the tests; 0 means a small number of faults: make faults DURATION=8h
DURATION    ?= 0
# The flags of the conformance runner: make conformance FLAGS='-leg client-all'
FLAGS       ?= -race -table CONFORMANCE.md

# With -trimpath the results of the compiler do not depend on paths, so scripts/check-install can use the results of
# the other targets.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)

# Otherwise every test binary and every process of a test sleeps for a second before it exits.
export GORACE := atexit_sleep_ms=0

# The go command does not notice changes of files outside a test's module. This makes it run the tests of pages again.
export PAGES := $(shell { cat *.md .goreleaser.yaml scripts/image; find deploy -type f -exec cat {} +; \
                  find docs examples interop otel store/redisstore -name node_modules -prune -o \
                  \( -name '*.md' -o -name '*.go' -o -name llms.txt \) -exec cat {} +; } | cksum)

# The tests do not run govulncheck: its results depend on a database on the network and not on the checkout alone.

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# step prints how long the command behind it takes.
step = @TIMEFORMAT='step $(1): %0R s'; time

.PHONY: test
test: ## Run the tests: 8 minutes on two cores once everything is installed and compiled
	$(call step,tools) $(MAKE) --no-print-directory tools
	@# The package that takes longest begins first. Many tests wait for processes, so more of them run at once than cores.
	$(call step,packages) $(GO) test -race -shuffle=on -tags=integration -p=3 -parallel=6 -timeout=20m ./cmd/parley \
		$$(grep -v -e /internal/house$$ -e /faults$$ <<<"$(WORK)")
	@# like programs in other repositories
	$(call step,outside) env GOWORK=off bash -ec 'for dir in examples/own{gateway,extension} bench/tmdevlab; do \
		$(GO) -C $$dir vet ./...; $(GO) -C $$dir test ./...; done'
	$(call step,allocations) $(GO) test ./bench # the race detector changes the allocation counts
	$(call step,browser) $(MAKE) --no-print-directory test-browser
	$(call step,conformance) $(MAKE) --no-print-directory conformance FLAGS='-race -leg server-all -leg client-all'

.PHONY: test-all
test-all: ## Run the tests that take longer, too: platforms, installation, faults, the whole conformance suite
	$(call step,tools) $(MAKE) --no-print-directory tools
	$(call step,lint) $(MAKE) --no-print-directory lint WORK=work
	$(call step,platforms) $(MAKE) --no-print-directory cross build
	$(call step,installation) scripts/check-install
	$(call step,packages) $(GO) test -race -shuffle=on -tags=integration,long -timeout=20m \
		$$($(GO) list -tags=integration work | grep -v /internal/house$$)
	$(call step,browser) $(MAKE) --no-print-directory test-browser
	$(call step,conformance) $(MAKE) --no-print-directory conformance

.PHONY: build
build: ## Build the program as a static binary, .out/parley
	@# The exporters of OpenTelemetry link gRPC, whose pages about traces, which nobody serves, would add 12 MB.
	CGO_ENABLED=0 $(GO) build -tags=grpcnotrace -ldflags='-s -w $(LDFLAGS)' -o .out/parley ./cmd/parley
	@echo "$$(wc -c <.out/parley) bytes"

.PHONY: share
share: build ## Write the manual page, the completion scripts and the licenses of a release into .out/share
	@mkdir -p .out/share/completions
	@scripts/licenses .out/share/licenses.txt
	@.out/parley man >.out/share/parley.1
	@gzip -9nc .out/share/parley.1 >.out/share/parley.1.gz
	@for shell in bash zsh fish; do .out/parley completion $$shell >.out/share/completions/parley.$$shell; done
	@.out/parley completion powershell >.out/share/completions/parley.ps1

.PHONY: check-install
check-install: ## Install and use the modules outside the workspace, from a local module proxy
	@scripts/check-install

.PHONY: tidy
tidy: ## Run go mod tidy in every module
	@scripts/tidy

.PHONY: tools
tools: ## Install the pinned tools into .tools/ unless they are there
	@scripts/tools

.PHONY: cross
cross: ## Build and vet every module for every platform
	@set -e; for os in $(PLATFORMS); do \
		echo "build and vet for $$os"; \
		GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null work; \
		GOOS=$$os CGO_ENABLED=0 $(GO) vet -tags=integration,browser,long work; \
	done

.PHONY: lint
lint: ## Run gofmt, go vet, staticcheck and the house rules, which include the API check
	@unformatted=$$(find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt -l -s); \
	if [[ -n $$unformatted ]]; then echo "gofmt -s would change:"; echo "$$unformatted"; exit 1; fi
	@# With -race the dependencies are compiled once for this target and for the tests.
	$(call step,vet) $(GO) vet -race -tags=integration,browser,long $(WORK)
	@GOBIN=$(CURDIR)/.tools/bin $(GO) install $(STATICCHECK)
	$(call step,staticcheck) env GOFLAGS='$(GOFLAGS) -race' .tools/bin/staticcheck -tags=integration,browser,long $(WORK)
	$(call step,house) $(GO) test ./internal/house

.PHONY: api
api: ## Record the exported API in api/*.txt
	$(GO) test ./internal/house -run=API -update

.PHONY: conformance
conformance: tools ## Run the official conformance suite, compare its results with the baseline, write CONFORMANCE.md
	$(GO) run ./conformance/run $(FLAGS)

.PHONY: interop
interop: tools ## Test with the TypeScript SDKs and servers
	$(GO) test -race -count=1 -tags=integration,long -timeout=5m ./interop/...

.PHONY: faults
faults: tools ## Let servers of a gateway, replicas and Redis fail under load (DURATION=8h)
	@rm -f .out/faults/totals.json
	$(GO) test -count=1 -v -run=TestNothingCrosses ./gateway -args -callers=200 # a thousand in five revisions
	$(GO) test -race -count=1 -v -tags=integration -timeout=0 -p=2 ./gateway/faults ./store/redisstore/faults -args -duration=$(DURATION); \
		status=$$?; cat .out/faults/totals.json; exit $$status

.PHONY: test-browser
test-browser: tools ## Test logins and the inspector in Chromium; unpacks Debian's into .tools/ if there is none
	@scripts/browser
	$(GO) test -race -count=1 -tags=browser -timeout=15m -run='Browser' ./cmd/parley

.PHONY: pictures
pictures: tools ## Make the pictures of the README from the program
	@scripts/browser
	$(GO) test -tags=browser -count=1 -run=TestBrowserPicture ./cmd/parley -args -pictures=$(CURDIR)/docs/pictures

.PHONY: bench
bench: ## Run the benchmarks (BENCH=regexp, PACKAGES=pattern)
	$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem $(PACKAGES)

.PHONY: fuzz
fuzz: ## Run the fuzz targets one after another (FUZZTIME=10s, FUZZ=regexp, PACKAGES=pattern)
	@scripts/fuzz '$(FUZZTIME)' '$(FUZZ)' $(PACKAGES)

.PHONY: clean
clean: ## Remove the tools and all output
	rm -rf .tools .out interop/npm/node_modules interop/issuers/npm/node_modules
