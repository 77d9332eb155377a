# Everything a developer needs; `make` prints the list. Only Go and make are
# required, but for the targets that say otherwise.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X main.version=$(VERSION))
FUZZTIME ?= 2m
# The long forms of what make test does in a short one.
HISTORIES ?= 10000
ROUNDS    ?= 20

IMAGE   ?= chorale:dev

# The race detector needs a C compiler; without one the tests run without it.
CC_NAME := $(firstword $(shell $(GO) env CC))
RACE    := $(if $(shell command -v $(CC_NAME) 2>/dev/null),-race)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/chorale, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/chorale ./cmd/chorale

# Many tests wait for processes, elections and disks, so one package more runs at a time
# than a small machine has processors; with many more, elections there would come late.
# The race detector has each process sleep a second at its end unless it is told otherwise.
.PHONY: test
test: ## all tests, under the race detector where a C compiler is at hand
	@$(if $(RACE),:,echo 'no C compiler ($(CC_NAME)): testing without the race detector')
	GORACE="atexit_sleep_ms=10 $$GORACE" $(GO) test $(RACE) -count=1 -p 3 -timeout 10m ./...

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, govulncheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@echo '$(GO) tool govulncheck ./...'; \
	  out=$$($(GO) tool govulncheck ./... 2>&1); code=$$?; \
	  case "$$code:$$out" in \
	    0:*) echo "$$out" ;; \
	    *'fetching vulnerabilities'*) echo 'govulncheck: its database cannot be reached from here; not checked' ;; \
	    *) echo "$$out"; exit 1 ;; \
	  esac

.PHONY: demo
demo: build ## three nodes on loopback: import, kill the leader, recover, compare
	@$(GO) build -o bin/demo ./internal/demo && exec bin/demo

.PHONY: sim
sim: ## HISTORIES=10000 simulated clusters; a finding prints what repeats it
	$(GO) test -count=1 -timeout 0 -run 'TestSim$$' ./jepsen/sim -histories $(HISTORIES)

.PHONY: jepsen
jepsen: sim ## make sim, planted bugs, and ROUNDS=20 of kill -9 on real processes
	$(GO) test -count=1 -timeout 0 -v ./jepsen/mutations
	$(GO) test -count=1 -timeout 0 -v ./jepsen/procs -rounds $(ROUNDS)

.PHONY: life
life: ## 5,000 messages/s through 3, 5 and 3 nodes, and ROUNDS=20 of add, promote, remove, wipe
	$(GO) test -count=1 -timeout 30m -parallel 1 -v -run 'TestLife$$|TestWipes$$' ./jepsen/procs -rate 5000 -rounds $(ROUNDS) -calm 3s -gap 2s

.PHONY: upgrade
upgrade: ## OLD=commit: a cluster of that version is upgraded to this tree, node by node, under load
	@test -n '$(OLD)' || { echo 'which version to upgrade from? make upgrade OLD=COMMIT'; exit 2; }
	@dir=$$(mktemp -d) && trap "git worktree remove --force $$dir/tree; rm -rf $$dir" EXIT && \
	  git worktree add --quiet --detach $$dir/tree '$(OLD)' && \
	  (cd $$dir/tree && $(GO) build -ldflags '-X main.version=$(OLD)' -o $$dir/chorale ./cmd/chorale) && \
	  $(GO) test -count=1 -timeout 10m -v -run 'TestUpgrade$$' ./jepsen/procs -old $$dir/chorale

.PHONY: bench
bench: ## the Go benchmarks; the product's own are `chorale bench`
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Go makes each new input small before it goes on, for a minute unless it is told otherwise.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME=2m
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go | cut -c6-); do \
	    echo "$$dir $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$dir || exit 1; \
	  done; \
	done

.PHONY: proto
proto: ## api/*.pb.go from api/chorale.proto (needs protoc)
	@command -v protoc >/dev/null || { echo 'protoc is not installed (package protobuf-compiler)'; exit 1; }
	$(GO) build -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	cd api && PATH="$(CURDIR)/bin:$$PATH" protoc --go_out=. --go_opt=paths=source_relative \
	  --go-grpc_out=. --go-grpc_opt=paths=source_relative chorale.proto

.PHONY: image
image: build ## the container image chorale:dev (needs docker)
	mkdir -p bin/image/data && cp bin/chorale bin/image/
	docker build -t $(IMAGE) -f deploy/Dockerfile bin/image

.PHONY: clean
clean: ## remove what the targets above leave behind
	rm -rf bin coverage.out
	$(GO) clean -testcache
