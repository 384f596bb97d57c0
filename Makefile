# make demo and make test need only Go, Node and git: they install or build the rest, or say what is missing.

include project.env

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMAGE   := lapse:dev
UI      := dashboard/ui
RUNS    ?= $(CURDIR)/runs

# The program and its tests are compiled alike, so nothing is compiled twice. Only the race detector needs C.
export CGO_ENABLED := 0

GOFLAGS_BUILD := -ldflags "-s -w -X $(MODULE)/internal/run/version.Version=$(VERSION) \
  -X $(MODULE)/internal/run/version.Homepage=$(HOMEPAGE) -X $(MODULE)/internal/cli.builtInImage=$(IMAGE)"

.PHONY: help build image sandbox demo quick test test-short test-all test-ci test-long test-real test-race test-modules test-path lint-all test-release release truth test-ui test-sandbox test-e2e test-e2e-ci test-e2e-long bench bench-go golden ui rollouts routes sweep paired leads hour lab scale module clean FORCE

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make demo      a drain measured on a real cluster on this machine, before and after the fix
## make quick     formatting, vet, staticcheck, Go tests without root, browser, cluster and real time
## make test      quick, then real sockets, the page in a browser, and five end-to-end tests on that cluster
## make test-ci   more linters, a release made twice, the race detector (which CI has on from make test on), the sandbox, most end-to-end tests, scenarios of the lab
## make test-long the rest: macOS, start pages, Argo Rollouts, the guard's lead times, another module path. Run it before a release
## make test-all  make test-ci and make test-long
## make truth     the simulations that judgements are held against, with all their seeds, and a week of a guard
## make build     bin/lapse
## make image     bin/lapse.tar, the image for the Job in a cluster
## make release VERSION=v0.1.0  archives, packages, image, manifests and checksums in dist/ (docs/how-to/release.md)
## make ui        rebuild the page (dashboard/dist)
## make golden    rewrite the tests' expected outputs, to be reviewed as a diff
## make bench     Lapse against its targets and its peers, about an hour, into docs/benchmarks.md
## make bench-go  only the Go benchmarks
## make scale     10 and 1000 ready endpoints behind 10 Services, half an hour each, into runs/
## make lab       every cause provoked on that cluster, and what Lapse calls it; REPEAT=3 in both proxy modes, into docs/measured/
## make routes    each node's routes by lapse routes, held against the nodes' own rules and beside kube-proxy's own figure, into runs/
## make sweep     the keep-serving curve, held against drains whose Pods do serve longer, into runs/
## make paired    drains with Lapse and without it by turns: does measuring change them? Into runs/
## make leads     how long before an endpoint is lost each sign of the guard comes, and the rate meanwhile, into runs/
## make module MODULE=github.com/you/lapse  another path for the Go modules, everywhere it is named
## make hour      an hour of disruptions through a guard, 60 of 10 Services, held against what the servers count, into runs/
## make rollouts  rolling restarts held against the truth, 10 in each proxy mode, quiet and busy, into runs/

build: bin/lapse

bin/lapse: FORCE
	go build $(GOFLAGS_BUILD) -o $@ ./cmd/lapse

image: bin/lapse
	bin/lapse image save bin/lapse.tar

# Minutes the first time: six platforms. Everything but the modules' sources is made here, without network.
release:
	rm -rf dist
	go -C tools/release run . -version "$(VERSION)" -out "$(CURDIR)/dist"

bin/sandbox: FORCE
	go -C sandbox build -o ../bin/sandbox .

# The sandbox with Lapse's image in it, freshly up.
sandbox: bin/sandbox image
	bin/sandbox setup
	bin/sandbox down
	bin/sandbox up
	bin/sandbox load bin/lapse.tar

demo: sandbox
	@status=0; go -C sandbox run ./demo -lapse "$(CURDIR)/bin/lapse" -runs "$(RUNS)" || status=$$?; \
	if [ -z "$$KEEP" ]; then bin/sandbox down; else echo "The cluster is still up; bin/sandbox down ends it."; fi; \
	exit $$status

# In CI the race detector is on from the start, so that no test is played twice, without it and with it.
RACE := $(if $(CI),-race)

# The first layer: no root, no browser, no cluster, no real time. Under a minute once everything is compiled, on any
# system that Go builds for.
quick: bin/staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	go vet ./...
	bin/staticcheck ./...
	$(MAKE) --no-print-directory test-short

# The second: real sockets and real time, the page in a browser, and what Lapse is for on a real cluster.
test: quick test-real test-ui test-e2e

# The third: everything else. A machine with two slow processors plays the first two layers and test-ci in an hour.
test-all: test-ci test-long
test-ci: lint-all test-release $(if $(RACE),,test-race) test-modules test-sandbox test-e2e-ci
test-long: cross test-path test-e2e-long

# What measures over real sockets, in real time, or looks at the page in a browser: see internal/layer. Vet compiles
# what it needs; then these packages run one at a time: no test runs beside a compiler, and a prober never waits for
# another package's tests. The race detector's layer has the longest, which are left out here.
REALTIME := $(shell grep -rl --include='*_test.go' 'layer\.Real' loadgen internal/run internal/cli dashboard lapsetest | \
  xargs -n 1 dirname | sort -u | sed 's,^,./,')

LONGEST := ^(TestSelftestKeepsItsPromises|TestTruthOfAStaleUDPTranslation|TestRunBeginsWithoutAProber.*)$$

ifndef RACE

test-short:
	go test -short ./...

test-real: needs $(UI)/node_modules bin/gotest
	go vet $(REALTIME)
	bin/gotest -p 1 -timeout 20m -skip '$(LONGEST)' -- $(REALTIME)

else # over all but correlate, which starts no goroutine, and the page in a browser

test-short: needs bin/gotest
	go test -short ./correlate
	CGO_ENABLED=1 bin/gotest -race -timeout 20m -- $$(go list ./... | grep -vxF "$$(go list ./correlate $(REALTIME))")
	CGO_ENABLED=1 go test -race -short ./dashboard

test-real: needs $(UI)/node_modules bin/gotest
	bin/gotest -p 1 -timeout 20m -- ./dashboard
	CGO_ENABLED=1 go vet -race $(REALTIME)
	CGO_ENABLED=1 bin/gotest -race -p 1 -timeout 20m -- $(filter-out ./dashboard,$(REALTIME))

endif

test-race:
	$(MAKE) --no-print-directory RACE=-race test-short test-real

# The other modules' own tests.
# What tools/ tests lies outside its modules, where the go command does not see that it has changed.
test-modules: needs bin/gotest
	bin/gotest -C sandbox -p 1 -- ./...
	bin/gotest -C loadgen/bench -p 1 -- ./...
	bin/gotest -C sandbox/coredns -p 1 -- ./...
	bin/gotest -C tools -count=1 -timeout 20m -- ./gotest ./ci
	bin/gotest -C tools/helm -count=1 -- .
	bin/gotest -C tools/argo -count=1 -- .
	bin/gotest -C tools/flagger -count=1 -- .
	bin/gotest -C tools/s3 -count=1 -- .

# The Go modules under another path, built there.
test-path: bin/gotest
	bin/gotest -C tools -count=1 -timeout 20m -- ./module

# A release for two systems, made twice in two places; Krew's own checks and installation.
test-release: bin/gotest
	bin/gotest -C tools/release -timeout 20m -- ./...

.PHONY: needs
needs:
	sandbox/needs.sh

# The program for macOS. That for Linux and Windows is built by test-release.
.PHONY: cross
cross:
	GOOS=darwin GOARCH=arm64 go build -trimpath -o /dev/null ./cmd/lapse

# More linters; vet, staticcheck and errcheck over the other modules; tools/errcheck.txt lists the calls whose error says nothing.
lint-all: bin/staticcheck bin/errcheck bin/revive
	bin/errcheck -ignoretests -exclude tools/errcheck.txt ./...
	bin/revive -config tools/revive.toml ./...
	go vet -tags e2e ./lapsetest/cluster
	go -C sandbox vet -tags cluster,e2e ./...
	go -C loadgen/bench vet ./...
	go -C tools vet ./...
	cd sandbox && ../bin/staticcheck -tags cluster,e2e ./... && ../bin/errcheck -ignoretests -exclude ../tools/errcheck.txt ./...
	cd loadgen/bench && ../../bin/staticcheck ./... && ../../bin/errcheck -ignoretests -exclude ../../tools/errcheck.txt ./...
	cd tools && ../bin/staticcheck ./... && ../bin/errcheck -exclude errcheck.txt ./...
	go -C tools/helm vet .
	go -C tools/argo vet .
	go -C tools/flagger vet .
	go -C tools/s3 vet .
	go -C tools/release vet ./...
	cd tools/release && ../../bin/staticcheck ./... && ../../bin/errcheck -ignoretests -exclude ../errcheck.txt ./...

bin/staticcheck: tools/go.mod
	go -C tools build -o ../$@ honnef.co/go/tools/cmd/staticcheck

bin/errcheck: tools/go.mod
	go -C tools build -o ../$@ github.com/kisielk/errcheck

bin/revive: tools/go.mod
	go -C tools build -o ../$@ github.com/mgechev/revive

# A release of one archive: what the start pages begin with.
RELEASE := bin/release/v0.1.0
.PHONY: $(RELEASE)
$(RELEASE):
	rm -rf $@ && mkdir -p $(@D)
	go -C tools/release run . -version v0.1.0 -only linux-$$(go env GOARCH) -out "$(CURDIR)/$@"

# Of the chart's end-to-end test.
bin/helm: tools/helm/go.mod
	go -C tools/helm build -o ../../$@ helm.sh/helm/v4/cmd/helm

# A real S3 server, of the end-to-end test of a bucket.
bin/versitygw: tools/s3/go.mod
	go -C tools/s3 build -o ../../$@ github.com/versity/versitygw/cmd/versitygw

# The controller of Argo Rollouts in an image, of its end-to-end test. Four minutes the first time.
ARGO := github.com/argoproj/argo-rollouts/cmd/rollouts-controller
bin/argo-rollouts.tar: tools/argo/go.mod
	go -C tools/argo build -ldflags '-s -w' -o ../../bin/rollouts-controller $(ARGO)
	go run ./deploy/mkimage -name argo-rollouts:dev -entrypoint /bin/rollouts-controller -o $@ bin/rollouts-controller

# go test that fails when a test was skipped.
bin/gotest: $(wildcard tools/gotest/*.go)
	go -C tools build -o ../$@ ./gotest

# The tests run a fifth of the seeds, and two days.
truth:
	go test -count=1 ./correlate -correlate.seeds 1
	go test -count=1 ./internal/guard -run '^TestDaysOfRollouts$$' -guard.days 7

# The committed page is what its source builds.
test-ui: ui
	npm --prefix $(UI) test
	git diff --exit-code -- dashboard/dist

ui: $(UI)/node_modules
	npm --prefix $(UI) run build

# What builds and tests the page; the browser tests take axe-core from here.
$(UI)/node_modules: $(UI)/package-lock.json
	npm --prefix $(UI) ci --no-audit --no-fund
	@touch $@

# The sandbox itself, in both proxy modes, and that it leaves nothing behind.
test-sandbox: bin/sandbox bin/gotest
	bin/sandbox setup
	bin/sandbox down
	bin/gotest -C sandbox -count=1 -timeout 20m -tags cluster -- .

# The end-to-end tests of what Lapse is for. make test-ci runs most of the others.
E2E := ^(TestDrainWithoutFixLosesRequests|TestDrainWithFixLosesNothing|TestOnlyReplicaDeletedIsNoReadyEndpoint|TestResultOfADeletedPodIsRetrieved|TestKustomizeAloneMeasures)$$

# Scenarios of the lab, which play after the end-to-end tests and only if these pass, so that the log ends with what
# failed: a minute and a half.
LAB_TEST := control-graceful-rollout pod-crashed grace-too-short dns-path

E2E_TEST = LAPSE="$(CURDIR)/bin/lapse" HELM="$(CURDIR)/bin/helm" S3="$(CURDIR)/bin/versitygw" RELEASE="$(CURDIR)/$(RELEASE)" bin/gotest -C sandbox -count=1 -timeout 60m -tags e2e -v

test-e2e: needs sandbox bin/gotest
	@status=0; $(E2E_TEST) -run '$(E2E)' -- ./e2e || status=$$?; bin/sandbox down; exit $$status

# Those that take longest: the start pages, typed; Argo Rollouts, which is built first; each sign that a guard knows.
E2E_LONG := ^(TestArgoRolloutsAsksTheGate|TestEachSignRaisesTheRate|TestAnImageThatIsNotPushedOrPulledIsAnswered|TestStart.*)$$

test-e2e-ci: needs sandbox bin/gotest bin/helm bin/versitygw $(RELEASE)
	@status=0; { $(E2E_TEST) -skip '$(E2E)|$(E2E_LONG)' -- ./e2e && \
	go -C sandbox run ./lab -lapse "$(CURDIR)/bin/lapse" -sandbox "$(CURDIR)/bin/sandbox" -image "$(CURDIR)/bin/lapse.tar" -runs "$(RUNS)" $(LAB_TEST); } || status=$$?; \
	bin/sandbox down; exit $$status

test-e2e-long: needs sandbox bin/gotest bin/argo-rollouts.tar $(RELEASE)
	@status=0; { bin/sandbox load bin/argo-rollouts.tar && $(E2E_TEST) -run '$(E2E_LONG)' -- ./e2e; } || status=$$?; \
	bin/sandbox down; exit $$status

golden:
	go test ./correlate ./correlate/causes ./internal/record ./internal/report ./internal/report/schematest ./deploy ./internal/cli -update
	go -C tools/helm test . -update
	go test ./internal/preflight ./internal/preflight/manifest ./internal/preflight/rules -update
	go test ./dashboard -run TestProtocolIsDocumented -update

# Nothing else should run on the machine meanwhile. BENCH takes arguments, such as --only exact --runs 1 --length 5s.
bench:
	go -C loadgen/bench run . --root ../.. --out ../../docs/benchmarks.md $(BENCH)

bench-go:
	go test -run '^$$' -bench . -benchmem ./internal/record ./loadgen ./loadgen/internal/protocol ./correlate/...

# A program of sandbox/ that measures on the sandbox's cluster, which ends with it: its name, its arguments. Its table
# goes to runs/; docs/measured has what of it is worth keeping.
define on-sandbox
@status=0; go -C sandbox run ./$(1) -lapse "$(CURDIR)/bin/lapse" -sandbox "$(CURDIR)/bin/sandbox" -image "$(CURDIR)/bin/lapse.tar" \
  -runs "$(CURDIR)/runs" -out "$(CURDIR)/runs" $(2) || status=$$?; \
bin/sandbox down; exit $$status
endef

# Half an hour. ROLLOUTS takes arguments, such as -n 1.
rollouts: sandbox
	$(call on-sandbox,rollouts,$(ROLLOUTS))

# A quarter of an hour. ROUTES takes arguments, such as -changes 5, or -drains 20: the advice, held against drains.
routes: sandbox
	$(call on-sandbox,routes,$(ROUTES))

# Half an hour. SWEEP takes arguments, such as -n 1.
sweep: sandbox
	$(call on-sandbox,sweep,$(SWEEP))

# A quarter of an hour. PAIRED takes arguments, such as -n 1, or -guard.
paired: sandbox
	$(call on-sandbox,paired,$(PAIRED))

# An hour and a few minutes. HOUR takes arguments, such as -minutes 5 -every 20s -rest 20s.
hour: sandbox
	$(call on-sandbox,hour,$(HOUR))

# A quarter of an hour. It adds to runs/leads.json, of which runs/lead-times.md is the table; REPEAT=n makes each sign n times.
leads: sandbox
	@status=0; LAPSE="$(CURDIR)/bin/lapse" go -C sandbox test -count=1 -timeout 60m -tags e2e -v -run '^TestEachSignRaisesTheRate$$' ./e2e \
	  -args -lead.repeat=$(or $(REPEAT),10) -lead.out="$(RUNS)/leads.json" || status=$$?; \
	bin/sandbox down; exit $$status

# Half an hour on two cores with nothing beside it, three scenarios at a time where they touch only their own namespace
# (LAB="-together 1": one after the other). With REPEAT=n each scenario is played n times in each proxy mode, and
# docs/measured/causes.md is written. LAB takes arguments, such as the names of scenarios.
lab: sandbox
	@status=0; go -C sandbox run ./lab -lapse "$(CURDIR)/bin/lapse" -sandbox "$(CURDIR)/bin/sandbox" -image "$(CURDIR)/bin/lapse.tar" -runs "$(RUNS)" \
	  $(if $(REPEAT),-n $(REPEAT) -modes iptables$(comma)nftables -out "$(CURDIR)/docs/measured") $(LAB) || status=$$?; \
	bin/sandbox down; exit $$status

comma := ,

# An hour. SCALE takes arguments, such as -length 2m.
scale: sandbox
	@status=0; go -C sandbox build -o ../bin/scale ./scale && bin/scale -lapse "$(CURDIR)/bin/lapse" -runs "$(CURDIR)/runs" -out "$(CURDIR)/runs" $(SCALE) || status=$$?; \
	bin/sandbox down; exit $$status

# Variables of make are exported to what it runs, so that PATH= would hide the programs it needs.
module:
	go -C tools run ./module "$(MODULE)"

clean:
	rm -rf bin dist

FORCE:
