package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ciddk/internal/testenv"
	"ciddk/tools/layers"
)

// The linter's version is fixed, because findings differ between versions.
const (
	linterVersion = "2.15.0"
	linter        = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v" + linterVersion
	actionlint    = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
)

// steps returns all steps. In a full run, vet and test do more.
func steps(full bool, again *repetition) []step {
	const s, m = time.Second, time.Minute
	vetThis := step{"vet", "go vet for " + runtime.GOOS, always, 90 * s, 12 * m, vet(false)}
	quick := step{"test", "go test -short ./...", always, 120 * s, 15 * m, func(ctx context.Context, r *runner) error {
		packages, err := r.packagesWithout(ctx, nil)
		if err != nil {
			return err
		}
		return r.goTest(ctx, []string{"-short"}, packages...)
	}}
	if full {
		vetThis = step{"vet", "go build and go vet for " + runtime.GOOS + ", and go vet for " + otherSystems[0],
			always, 170 * s, 14 * m, vet(true)}
		quick = step{"test", "go test, with virtual machines", always, 480 * s, 40 * m, test}
	}
	return []step{
		{"format", "gofmt changes nothing", always, 5 * s, m, format},
		vetThis,
		quick,
		{"race", "go test -race -short of packages with goroutines", inFull,
			330 * s, 24 * m, race},
		{"usb", "the packages with build tag usb, with libusb", inFull, 25 * s, 4 * m, usb},
		{"lint", "golangci-lint, and actionlint for the workflows", inFull, 60 * s, 10 * m, lint},
		{"fuzz", fmt.Sprintf("%d fuzz targets for %v, two at a time", len(fuzzCore), fuzzTime),
			inFull, 100 * s, 14 * m, fuzz},
		{"bench", "every benchmark, briefly, with its yardstick", inFull, 100 * s, 8 * m, bench},
		{"storm",
			"500,000 messages over each IP version, on a network that harms half of all packets, in virtual time",
			inFull, 35 * s, 6 * m, storm},
		{"udpstorm", "20,000 messages over UDP with each of IPv4, IPv4 privileged and IPv6, with 2% of each harm",
			inFull, 25 * s, 6 * m, udpStorm},
		{"chaos", "everything at once under the race detector: connections, random verbs, forged packets, hot removal",
			inFull, 75 * s, 6 * m, chaos},
		{"certify", "ddk-validate run reference, over each link, through the access layer and a daemon; run mlx4",
			inFull, 270 * s, 14 * m, certify},
		{"kills",
			"500 clients of ddkd are killed, half of them under traffic, and their peers receive the errors of IBTA",
			inFull, 25 * s, 4 * m, kills},
		{"load", "ddk-validate run reference, a quarter of the cases, at low priority, beside 8 busy processes",
			inFull, 75 * s, 14 * m, load},
		{"mutants", "ddk-validate self: the certifier catches wrong drivers, an eighth of them",
			inFull, 75 * s, 10 * m, mutants},
		{"mutation", fmt.Sprintf("the certifier and the tests detect changes of the source, %d (with -whole)",
			numMutations), inFull, s, 40 * m, mutation},
		{"examples", "the examples, built and run", inFull, 60 * s, 3 * m, examples},
		{"release", "what a release consists of is built twice, installed and run", inFull, 150 * s, 20 * m, release},
		{"kubernetes", "the driver for Kubernetes, a module of its own: vet and tests, with daemons and containers",
			inFull, 150 * s, 14 * m, kubernetes},
		{"repeat", "the quick tests of each package, many times beside busy processes; goes on where it was stopped",
			byName, 10 * time.Hour, overall, again.repeat},
	}
}

func format(ctx context.Context, r *runner) error {
	files, err := layers.Files(r.root, ".go")
	if err != nil {
		return err
	}
	goroot, err := r.output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	bad, err := r.output(ctx, filepath.Join(strings.Join(goroot, " "), "bin", "gofmt"),
		append([]string{"-l", "-s"}, files...)...)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("gofmt -s would change %s", strings.Join(bad, ", "))
	}
	return nil
}

// otherSystems are those that vet compiles for. The first is the core: it differs most from Linux.
var otherSystems = []string{"windows", "darwin"}

// vet vets everything for this system, which finds all that does not compile. In a full run, it also links all
// programs, and vets for other systems.
func vet(isFull bool) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		systems := []string{runtime.GOOS}
		if isFull {
			if err := r.do(ctx, nil, "go", "build", "./..."); err != nil {
				return err
			}
			systems = append(systems, testenv.Core(otherSystems, len(otherSystems))...)
		}
		for _, system := range systems {
			if err := r.do(ctx, []string{"GOOS=" + system}, "go", "vet", "./..."); err != nil {
				return err
			}
		}
		return nil
	}
}

// ownSteps are the packages whose tests have steps of their own, which run longer.
var ownSteps = []string{"test/chaos"}

// withoutRace are the folders that the race step excludes: tools with one goroutine, programs that run as processes of
// their own, and packages with steps of their own.
var withoutRace = []string{"internal", "tools", "test", "bench"}

// raceWhole are the folders that the race step includes only with -whole, as it does long tests: those that certify,
// and programs.
var raceWhole = []string{"cmd/ddk-validate", "cmd/ddkd", "validate", "examples"}

// test runs the tests of a full run.
func test(ctx context.Context, r *runner) error {
	packages, err := r.packagesWithout(ctx, ownSteps)
	if err != nil {
		return err
	}
	return r.goTest(ctx, nil, packages...)
}

// slowPackages are those whose tests take longest. Their tests begin first, so that none is left alone at the end.
var slowPackages = []string{"test/verbs", "test/mlx4", "test/linux", "test/nvmet", "cmd/ddk-validate", "bench",
	"internal/mlx4/fw", "cmd/ddkrun/cli", "validate"}

// inOrder sorts packages: those that take long come first.
func inOrder(module string, packages []string) []string {
	rank := func(p string) int {
		if i := slices.Index(slowPackages, strings.TrimPrefix(p, module+"/")); i >= 0 {
			return i
		}
		return len(slowPackages)
	}
	packages = slices.Clone(packages)
	slices.SortStableFunc(packages, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return packages
}

// packagesWithout returns the packages of the tree that are not below one of the folders.
func (r *runner) packagesWithout(ctx context.Context, folders []string) ([]string, error) {
	module, err := layers.Module(r.root)
	if err != nil {
		return nil, err
	}
	all, err := r.output(ctx, "go", "list", "./...")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p string) bool {
		return slices.ContainsFunc(folders, func(f string) bool {
			return p == module+"/"+f ||
				strings.HasPrefix(p, module+"/"+f+"/")
		})
	}), nil
}

// goTest runs go test -json and records the results. The timeout of a package is many times the duration of the slowest
// one. It ends tests that hang and prints their goroutines.
func (r *runner) goTest(ctx context.Context, flags []string, packages ...string) error {
	module, err := layers.Module(r.root)
	if err != nil {
		return err
	}
	// The step vet runs all of vet. Some tests wait most of the time: there is one more package than processors.
	args := append([]string{"test", "-json", "-vet=off", "-timeout", "35m", "-p", strconv.Itoa(runtime.NumCPU() + 1)},
		flags...)
	fmt.Fprintf(r.out, "$ go %s (%d packages)\n", strings.Join(args, " "), len(packages))
	args = append(args, inOrder(module, packages)...)
	c := r.command(ctx, testEnv(flags), "go", args...)
	pr, pw := io.Pipe()
	c.Stdout, c.Stderr = pw, r.out
	read := make(chan error, 1)
	go func() {
		err := r.results.tests(pr, r.out, module, &r.ends)
		pr.CloseWithError(err)
		read <- err
	}()
	err = r.run(c)
	pw.Close()
	if e := <-read; e != nil {
		return e
	}
	return err
}

// testEnv returns the environment of go test with flags.
func testEnv(flags []string) []string {
	if slices.Contains(flags, "-race") {
		return []string{withC}
	}
	return nil
}

func race(ctx context.Context, r *runner) error {
	if err := r.canRace(ctx); err != nil {
		return err
	}
	without, flags := slices.Concat(withoutRace, raceWhole), []string{"-race", "-short"}
	if r.whole {
		without, flags = withoutRace, flags[:1]
	}
	packages, err := r.packagesWithout(ctx, without)
	if err != nil {
		return err
	}
	return r.goTest(ctx, flags, packages...)
}

// canRace returns a skip if the race detector cannot run.
func (r *runner) canRace(ctx context.Context) error {
	cc, err := r.output(ctx, "go", "env", "CC")
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(strings.Join(cc, " ")); err != nil {
		return skip("the race detector needs a C compiler and there is none; install gcc or clang")
	}
	return nil
}

// usbPackages are those that the build tag usb changes.
var usbPackages = []string{"./bus/usb", "./cmd/ddk-oob"}

// usb builds, vets and tests the packages with libusb, and checks that the tag without cgo builds, too.
func usb(ctx context.Context, r *runner) error {
	if err := r.canRace(ctx); err != nil {
		return skip("libusb needs a C compiler and there is none; install gcc or clang")
	}
	if _, err := r.output(ctx, "pkg-config", "--modversion", "libusb-1.0"); err != nil {
		return skip("pkg-config does not find libusb; install libusb-1.0-0-dev and pkg-config")
	}
	if err := r.do(ctx, nil, "go", append([]string{"vet", "-tags", "usb"},
		usbPackages...)...); err != nil {
		return err
	}
	for _, args := range [][]string{{"build", "-tags", "usb", "-o", os.DevNull}, {"vet", "-tags", "usb"},
		{"test", "-vet=off", "-tags", "usb", "-count=1", "-timeout", "3m"}} {
		if err := r.do(ctx, []string{withC}, "go", append(args, usbPackages...)...); err != nil {
			return err
		}
	}
	return nil
}

const chaosTime = time.Minute

// chaos runs test/chaos for a minute. Its seed is in the output.
func chaos(ctx context.Context, r *runner) error {
	if !r.present("test/chaos") {
		return skip("the tree has no test/chaos")
	}
	if err := r.canRace(ctx); err != nil {
		return err
	}
	return r.do(ctx, []string{withC}, "go", "test", "-vet=off", "-race", "-count=1", "-timeout", "5m30s",
		"-run", "^TestChaos$", "-v", "./test/chaos", "-chaos.duration="+chaosTime.String())
}

func lint(ctx context.Context, r *runner) error {
	if err := r.do(ctx, nil, "go", "run", actionlint); err != nil {
		return err
	}
	if bin, err := exec.LookPath("golangci-lint"); err == nil {
		if v, err := r.output(ctx, bin, "version", "--short"); err == nil && len(v) > 0 &&
			strings.TrimPrefix(v[0], "v") == linterVersion {
			return r.do(ctx, nil, bin, "run", "./...")
		}
	}
	return r.do(ctx, nil, "go", "run", linter, "run", "./...")
}

const fuzzTime = 20 * time.Second

// fuzzCore are the targets that always run: one for each kind of peer that may send anything.
var fuzzCore = []target{
	{"wire", "FuzzParsePacket"}, {"rvt", "FuzzDeliver"}, {"link/internal/rocev2", "FuzzDatagram"}, // the network
	{"accesslayer/cm", "FuzzMessages"}, {"sma", "FuzzReceive"}, // managers
	{"kproxy/native", "FuzzRequest"}, {"internal/kproxy/uverbs", "FuzzSequence"}, // applications
	{"internal/rings", "FuzzHostileSend"}, {"hca/mlx4/model", "FuzzHostileDriver"}, // memory that others write
	{"internal/mlx4/fw", "FuzzLyingDevice"}, // devices
}

// fuzz runs the core of the targets, or all, two at a time with one worker each.
func fuzz(ctx context.Context, r *runner) error {
	targets := fuzzCore
	if testenv.Whole() {
		var err error
		if targets, err = r.testFunctions("Fuzz"); err != nil {
			return err
		}
	}
	work := make(chan target, len(targets))
	for _, t := range targets {
		work <- t
	}
	close(work)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	for range 2 {
		wg.Go(func() {
			for t := range work {
				// Without this limit, a target with long inputs spends its time minimizing them.
				c := r.command(ctx, nil, "go", "test", "-vet=off", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime",
					fuzzTime.String(), "-fuzzminimizetime", "20x", "-parallel", "1", "./"+t.pkg)
				var out bytes.Buffer
				c.Stdout, c.Stderr = &out, &out
				err := r.run(c)
				b := out.Bytes()
				mu.Lock()
				if ctx.Err() != nil {
					fmt.Fprintf(r.out, "stopped  %s %s\n", t.pkg, t.name)
				} else if err != nil && !ranOut(string(b)) {
					failed = append(failed, t.pkg+" "+t.name)
					fmt.Fprintf(r.out, "FAIL  %s %s: %v\n%s", t.pkg, t.name, err, b)
				} else {
					fmt.Fprintf(r.out, "ok    %s %s  %s\n", t.pkg, t.name, lastFuzzLine(string(b)))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		return defect{fmt.Errorf("%d of %d targets failed: %s", len(failed), len(targets), strings.Join(failed, ", "))}
	}
	return nil
}

// A target is a function of the tests in a folder.
type target struct{ pkg, name string }

// ranOut reports whether a fuzz run failed only because its time ended while an input was being executed
// (golang.org/issue/75804): that is the only message, and no input is named, as it would be for a failing or hanging
// input.
func ranOut(out string) bool {
	before, after, ok := strings.Cut(out, "--- FAIL: ")
	_, after, _ = strings.Cut(after, "\n")
	complaint, _, _ := strings.Cut(after, "FAIL\n")
	return ok && strings.TrimSpace(complaint) == "context deadline exceeded" && lastFuzzLine(before) != "" &&
		!strings.Contains(out, "Failing input")
}

// lastFuzzLine returns the last progress line of a fuzz run: how many executions, how many of interest.
func lastFuzzLine(out string) string {
	last := ""
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "fuzz: elapsed:") {
			last = strings.TrimSpace(strings.TrimPrefix(line, "fuzz: "))
		}
	}
	return last
}

// benchRounds is the number of rounds of which the tables print medians.
const benchRounds = 5

// bench runs all benchmarks briefly, then those with a limit for longer; their tables are printed last. A missed limit
// is not a failure, because the machine may be busy. TestUserCases of package bench fails if applications that share an
// adapter make too many system calls or allocate.
func bench(ctx context.Context, r *runner) error {
	benchmarks, err := r.testFunctions("Benchmark")
	if err != nil {
		return err
	}
	args := []string{"test", "-vet=off", "-short", "-run", "^$", "-bench", ".", "-benchtime", "100ms",
		"-benchmem", "-p", "1"}
	for _, b := range benchmarks {
		args = append(args, "./"+b.pkg)
	}
	if err := r.do(ctx, nil, "go", slices.Compact(args)...); err != nil {
		return err
	}
	if !r.present("bench/cmd/table") {
		return skip("the tree has no bench/cmd/table")
	}
	rounds := strconv.Itoa(benchRounds)
	if err := r.do(ctx, nil, "go", "run", "./bench/cmd/table", "-rounds", rounds); err != nil {
		return err
	}
	if runtime.GOOS != "linux" || !r.present("bench/cmd/user") {
		return nil
	}
	return r.do(ctx, nil, "go", "run", "./bench/cmd/user", "-rounds", rounds)
}

// release runs the tests of tools/release.
func release(ctx context.Context, r *runner) error { return r.module(ctx, "tools/release", ".", "19m") }

// kubernetes runs the tests of the driver for Kubernetes.
func kubernetes(ctx context.Context, r *runner) error {
	return r.module(ctx, "kubernetes", "cmd/ddk-dra", "10m")
}

// module vets and tests a module of its own, in a folder that has Go files below.
func (r *runner) module(ctx context.Context, folder, below, timeout string) error {
	if !r.present(path.Join(folder, below)) {
		return skip("the tree has no " + folder)
	}
	for _, args := range [][]string{{"vet", "./..."},
		{"test", "-vet=off", "-count=1", "-timeout", timeout, "-v", "./..."}} {
		if err := r.do(ctx, nil, "go", append([]string{"-C", folder}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// udpStorm runs TestUDPStorm with many messages.
func udpStorm(ctx context.Context, r *runner) error {
	if runtime.GOOS != "linux" {
		return skip("the test is for Linux's sockets")
	}
	return r.do(ctx, nil, "go", "test", "-vet=off", "-count=1", "-timeout", "5m30s", "-run", "^TestUDPStorm$", "-v",
		"./link/udp", "-udpstorm.messages=20000")
}

// storm runs test/storm with many messages.
func storm(ctx context.Context, r *runner) error {
	if !r.present("test/storm") {
		return skip("the tree has no test/storm")
	}
	return r.do(ctx, nil, "go", "test", "-vet=off", "-count=1", "-timeout", "5m30s", "-run", "^TestStorm$", "-v",
		"./test/storm", "-storm.messages=500000")
}

// testFunctions returns the functions of test files whose names begin with a prefix, and their folders. Asking go test
// for them would link all tests.
func (r *runner) testFunctions(prefix string) (l []target, err error) {
	files, err := layers.Files(r.root, ".go")
	if err != nil {
		return nil, err
	}
	function := regexp.MustCompile(`(?m)^func (` + prefix + `\w*)\(`)
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(f)))
		if err != nil {
			return nil, err
		}
		for _, m := range function.FindAllSubmatch(b, -1) {
			l = append(l, target{path.Dir(f), string(m[1])})
		}
	}
	if len(l) == 0 {
		return nil, fmt.Errorf("no test file has a function %s…", prefix)
	}
	return l, nil
}

// present reports whether a folder of the tree has Go files.
func (r *runner) present(dir string) bool {
	m, err := filepath.Glob(filepath.Join(r.root, filepath.FromSlash(dir), "*.go"))
	return err == nil && len(m) > 0
}

// validator builds ddk-validate into a temporary folder.
func (r *runner) validator(ctx context.Context) (bin string, cleanup func(), err error) {
	if !r.present("cmd/ddk-validate") {
		return "", nil, skip("the tree has no cmd/ddk-validate")
	}
	dir, err := os.MkdirTemp("", "ddk-check-")
	if err != nil {
		return "", nil, err
	}
	bin = filepath.Join(dir, "ddk-validate")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if err := r.do(ctx, nil, "go", "build", "-o", bin, "./cmd/ddk-validate"); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return bin, func() { os.RemoveAll(dir) }, nil
}

// certification is a list of runs of the certifier with one driver. The first ones are its core.
type certification struct {
	driver string
	core   int
	runs   []string // arguments
}

var certifications = []certification{
	{"reference", 6, []string{
		"--link udp", "--link udp --set loopback=direct", "--link direct", "--link network --set legal=2",
		"--link direct --profile minimal --set claims=few", "--link direct --set agents=passing --set odd=1",
		"--link network", "--link direct --set odd=1", "--link network --set odd=1", "--link direct --set legal=1",
		"--link network --set ip=6", "--link direct --set agents=hardware", "--link udp --set ip=6",
	}},
	{"reference --link network", 2, []string{
		"--through accesslayer --through user", "--through bypass",
		"--through accesslayer", "--through user", "--through accesslayer --through bypass",
		"--through user --through accesslayer", "--through accesslayer --through accesslayer",
	}},
	{"mlx4", 2, []string{
		"--link infiniband", "--through bypass --link ethernet --set roce=1",
		"--link fabric", "--link ethernet", "--link ethernet --set roce=1", "--link infiniband --set odd=1",
		"--link ethernet --set odd=1", "--link infiniband --set bus=vfio-user", "--link ethernet --set bus=vfio-user",
		"--through bypass --link ethernet", "--through bypass --link infiniband", "--through bypass --link fabric",
		"--through user --link ethernet", "--through user --link ethernet --set roce=1",
		"--through user --link infiniband", "--through user --link fabric",
	}},
}

// certifierRuns returns the arguments of the runs that this machine can make.
func certifierRuns(w io.Writer) (list [][]string) {
	noIP6 := hasIP6()
	for _, c := range certifications {
		runs := c.runs
		if !testenv.Whole() {
			runs = runs[:c.core]
		}
		for _, args := range runs {
			isDaemon := strings.Contains(args, "user") || strings.Contains(args, "bypass")
			switch {
			case isDaemon && runtime.GOOS != "linux":
			case noIP6 != nil && strings.Contains(args, "--link udp --set ip=6"):
				fmt.Fprintf(w, "      not run over UDP with IPv6: this machine has no IPv6 loopback (%v)\n", noIP6)
			default:
				list = append(list, strings.Fields("run "+c.driver+" "+args))
			}
		}
	}
	return list
}

func certify(ctx context.Context, r *runner) error {
	bin, cleanup, err := r.validator(ctx)
	if err != nil {
		return err
	}
	defer cleanup()
	for _, args := range certifierRuns(r.out) {
		if err := r.do(ctx, nil, bin, args...); err != nil {
			return err
		}
	}
	return nil
}

// hasIP6 returns an error if there is no IPv6 loopback.
func hasIP6() error {
	l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		return err
	}
	return l.Close()
}

// defaultKills is the number of clients that the kills step kills, unless -kills.clients sets another one.
const defaultKills = 500

// scaleKills sets title and times of the kills step for n clients.
func scaleKills(steps []step, n int) {
	for i := range steps {
		if s := &steps[i]; s.name == "kills" && n != defaultKills {
			s.title = strings.Replace(s.title, strconv.Itoa(defaultKills), strconv.Itoa(n), 1)
			s.expect = max(s.expect*time.Duration(n)/defaultKills, 5*time.Second)
			s.limit = max(s.limit*time.Duration(n)/defaultKills, s.limit)
		}
	}
}

// kills runs the test of cmd/ddkd/cli that kills client processes, at full length.
func kills(ctx context.Context, r *runner) error {
	if runtime.GOOS != "linux" {
		return skip("ddkd is for Linux")
	}
	timeout := max(210*time.Second*time.Duration(r.numKills)/defaultKills, 210*time.Second)
	return r.do(ctx, nil, "go", "test", "-vet=off", "-count=1", "-timeout", timeout.String(),
		"-run", "^TestKillClients$", "-v", "./cmd/ddkd/cli", "-kills="+strconv.Itoa(r.numKills))
}

// mutantParts is the number of parts of the mutants. The first is the core.
const mutantParts = 8

func mutants(ctx context.Context, r *runner) error {
	bin, cleanup, err := r.validator(ctx)
	if err != nil {
		return err
	}
	defer cleanup()
	args := []string{"self", "--whole"} // the reference has all that a mutant needs
	if !testenv.Whole() {
		args = append(args, "--shard", fmt.Sprintf("1/%d", mutantParts))
	}
	return r.do(ctx, nil, bin, args...)
}

const (
	// numMutations is the number of source mutants that the mutation step judges.
	numMutations = 30
	// mutationFloor is a percentage below the score in docs/mutation.md, because a small sample varies.
	mutationFloor = 60
)

// mutation judges a small sample of source mutants. Survivors are printed; a low score of certifier and tests together
// is a failure.
func mutation(ctx context.Context, r *runner) error {
	if !r.whole {
		return skip("is not in the core; -whole runs it")
	}
	return r.do(ctx, nil, "go", "run", "./tools/mutate", "-n", strconv.Itoa(numMutations), "-tests", "-seed", "1",
		"-floor", strconv.Itoa(mutationFloor))
}
