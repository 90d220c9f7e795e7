package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ciddk/internal/layers"
	"ciddk/internal/testenv"
)

// The linter's version is fixed, because findings differ between versions.
const (
	linterVersion = "2.15.0"
	linter        = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v" + linterVersion
)

// Systems that the default build must pass on.
var systems = []string{"linux", "darwin", "windows"}

// steps returns all steps. In a full run, vet and test do more.
func steps(full bool) []step {
	const s, m = time.Second, time.Minute
	vetThis := step{"vet", "go build and go vet for " + runtime.GOOS, false, 40 * s, 6 * m, vet(runtime.GOOS)}
	quick := step{"test", "go test -short ./...", false, 120 * s, 15 * m, func(ctx context.Context, r *runner) error {
		return r.goTest(ctx, []string{"-short"}, "./...")
	}}
	if full {
		vetThis = step{"vet", "go build and go vet for " + runtime.GOOS + ", and go vet for another system (by commit)",
			false, 170 * s, 10 * m, vet(systems...)}
		quick = step{"test", "go test, with virtual machines", false, 480 * s, 22 * m, test}
	}
	return []step{
		{"format", "gofmt changes nothing", false, 5 * s, m, format},
		vetThis,
		quick,
		{"race", "go test -race of packages with goroutines, and of a group with long tests (by commit)", true,
			330 * s, 24 * m, race},
		{"usb", "the packages with build tag usb, with libusb", true, 25 * s, 4 * m, usb},
		{"lint", "golangci-lint", true, 60 * s, 10 * m, lint},
		{"fuzz", fmt.Sprintf("a 16th of the fuzz targets (part by commit) for %v, two at a time", fuzzTime),
			true, 100 * s, 14 * m, fuzz},
		{"bench", "every benchmark, briefly, with its yardstick", true, 100 * s, 8 * m, bench},
		{"storm",
			"500,000 messages over each IP version, on a network that harms half of all packets, in virtual time",
			true, 35 * s, 6 * m, storm},
		{"udpstorm", "50,000 messages over UDP, IPv4, IPv4 privileged or IPv6 (by commit), with 2% of each harm",
			true, 25 * s, 6 * m, udpStorm},
		{"chaos", "everything at once under the race detector: connections, random verbs, forged packets, hot removal",
			true, 75 * s, 6 * m, chaos},
		{"certify", "ddk-validate run reference, over each link, through the access layer and a daemon; run mlx4", true,
			270 * s, 14 * m, certify},
		{"kills",
			"500 clients of ddkd are killed, half of them under traffic, and their peers receive the errors of IBTA",
			true, 25 * s, 4 * m, kills},
		{"load", "ddk-validate run reference, a quarter of it (by commit), at low priority, beside 8 busy processes",
			true, 75 * s, 14 * m, load},
		{"mutants", "ddk-validate self: the certifier catches wrong drivers, an eighth of them (part by commit)",
			true, 75 * s, 10 * m, mutants},
		{"mutation", fmt.Sprintf("the certifier and the tests detect changes of the source, %d "+
			"(package and seed by commit)", numMutations), true, 120 * s, 12 * m, mutation},
		{"examples", "the examples, built and run", true, 60 * s, 3 * m, examples},
	}
}

func format(ctx context.Context, r *runner) error {
	files, err := layers.Files(r.root, ".go")
	if err != nil {
		return err
	}
	goroot, err := r.output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	bad, err := r.output(ctx, nil, filepath.Join(strings.Join(goroot, " "), "bin", "gofmt"),
		append([]string{"-l", "-s"}, files...)...)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("gofmt -s would change %s", strings.Join(bad, ", "))
	}
	return nil
}

// vet builds and vets everything for this system. It vets, which compiles, for one of the others, which take turns.
func vet(systems ...string) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		if err := r.do(ctx, nil, "go", "build", "./..."); err != nil { // links the programs, too
			return err
		}
		others := slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return s == runtime.GOOS })
		if part, whole := testenv.Turn(len(others)); !whole {
			others = others[part : part+1]
		}
		for _, system := range append([]string{runtime.GOOS}, others...) {
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
var withoutRace = []string{"internal", "test", "bench"}

// raceInTurns are the folders of which the race step includes one group on each commit: those with the longest tests,
// in groups that take about equally long.
var raceInTurns = [][]string{
	{"cmd/ddk-validate"},
	{"validate", "cmd/ddkd", "link/udp"},
	{"hca/mlx4", "accesslayer/cm"},
	{"examples", "hca/reference/userlib", "accesslayer/mads", "accesslayer/rdmacm"},
}

// test runs the tests of a full run.
func test(ctx context.Context, r *runner) error {
	packages, err := r.packagesWithout(ctx, ownSteps)
	if err != nil {
		return err
	}
	return r.goTest(ctx, nil, packages...)
}

// packagesWithout returns the packages of the tree that are not below one of the folders.
func (r *runner) packagesWithout(ctx context.Context, folders []string) ([]string, error) {
	module, err := layers.Module(r.root)
	if err != nil {
		return nil, err
	}
	all, err := r.output(ctx, nil, "go", "list", "./...")
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
// one. It ends tests that hang and prints their goroutines. Up to a few tests that failed are repeated: see repeat.
func (r *runner) goTest(ctx context.Context, flags []string, packages ...string) error {
	args := append(append([]string{"test", "-json", "-timeout", "11m"}, flags...), packages...)
	if len(packages) == 1 {
		fmt.Fprintf(r.out, "$ go %s\n", strings.Join(args, " "))
	} else {
		fmt.Fprintf(r.out, "$ go %s (%d packages)\n", strings.Join(args[:len(args)-len(packages)], " "), len(packages))
	}
	module, err := layers.Module(r.root)
	if err != nil {
		return err
	}
	c := r.command(ctx, testEnv(flags), "go", args...)
	pr, pw := io.Pipe()
	c.Stdout, c.Stderr = pw, r.out
	read := make(chan error, 1)
	var failed failures
	go func() {
		err := r.results.tests(pr, r.out, module, &r.ends, &failed)
		pr.CloseWithError(err)
		read <- err
	}()
	err = c.Run()
	pw.Close()
	if e := <-read; e != nil {
		return e
	}
	if err != nil && ctx.Err() == nil && failed.canRepeat() && r.repeat(ctx, flags, failed) {
		return nil
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
	without := withoutRace
	if turn, whole := testenv.Turn(len(raceInTurns)); !whole {
		others := slices.Concat(slices.Delete(slices.Clone(raceInTurns), turn, turn+1)...)
		fmt.Fprintf(r.out, "without %s, whose turn is on other commits\n", strings.Join(others, ", "))
		without = slices.Concat(without, others)
	}
	packages, err := r.packagesWithout(ctx, without)
	if err != nil {
		return err
	}
	return r.goTest(ctx, []string{"-race"}, packages...)
}

// canRace returns a skip if the race detector cannot run.
func (r *runner) canRace(ctx context.Context) error {
	cc, err := r.output(ctx, nil, "go", "env", "CC")
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
	if _, err := r.output(ctx, nil, "pkg-config", "--modversion", "libusb-1.0"); err != nil {
		return skip("pkg-config does not find libusb; install libusb-1.0-0-dev and pkg-config")
	}
	if err := r.do(ctx, nil, "go", append([]string{"vet", "-tags", "usb"},
		usbPackages...)...); err != nil {
		return err
	}
	for _, args := range [][]string{{"build", "-tags", "usb", "-o", os.DevNull}, {"vet", "-tags", "usb"},
		{"test", "-tags", "usb", "-count=1", "-timeout", "3m"}} {
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
	return r.do(ctx, []string{withC}, "go", "test", "-race", "-count=1", "-timeout", "5m30s", "-run", "^TestChaos$",
		"-v", "./test/chaos", "-chaos.duration="+chaosTime.String())
}

func lint(ctx context.Context, r *runner) error {
	if bin, err := exec.LookPath("golangci-lint"); err == nil {
		if v, err := r.output(ctx, nil, bin, "version", "--short"); err == nil && len(v) > 0 &&
			strings.TrimPrefix(v[0], "v") == linterVersion {
			return r.do(ctx, nil, bin, "run", "./...")
		}
	}
	return r.do(ctx, nil, "go", "run", linter, "run", "./...")
}

const (
	fuzzTime  = 20 * time.Second
	fuzzParts = 16
)

// fuzz runs the targets whose turn it is, two at a time with one worker each.
func fuzz(ctx context.Context, r *runner) error {
	targets, err := r.fuzzTargets(ctx)
	if err != nil {
		return err
	}
	if part, whole := testenv.Turn(fuzzParts); !whole {
		all := len(targets)
		targets = testenv.Part(targets, part, fuzzParts)
		fmt.Fprintf(r.out, "%d of %d targets: part %d of %d\n", len(targets), all, part+1, fuzzParts)
	}
	work := make(chan target, len(targets))
	for _, t := range targets {
		work <- t
	}
	close(work)
	if len(targets) == 0 {
		return skip("no fuzz targets")
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	for range 2 {
		wg.Go(func() {
			for t := range work {
				// Without this limit, a target with long inputs spends its time minimizing them.
				c := r.command(ctx, nil, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime",
					fuzzTime.String(),
					"-fuzzminimizetime", "20x", "-parallel", "1", t.pkg)
				b, err := c.CombinedOutput()
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

type target struct{ pkg, name string }

// fuzzTargets returns the fuzz functions of the tree, as go test lists them.
func (r *runner) fuzzTargets(ctx context.Context) ([]target, error) {
	c := r.command(ctx, nil, "go", "test", "-json", "-list", "^Fuzz", "./...")
	c.Stderr = r.out
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -list: %w", err)
	}
	var l []target
	for line := range bytes.Lines(b) {
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action != "output" || !strings.HasPrefix(e.Output, "Fuzz") {
			continue
		}
		l = append(l, target{e.Package, strings.TrimSpace(e.Output)})
	}
	return l, nil
}

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
	if err := r.do(ctx, nil, "go", "test", "-short", "-run", "^$", "-bench", ".", "-benchtime", "100ms",
		"-benchmem", "-p",
		"1", "./..."); err != nil {
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

// udpStorm runs TestUDPStorm with many messages.
func udpStorm(ctx context.Context, r *runner) error {
	if runtime.GOOS != "linux" {
		return skip("the test is for Linux's sockets")
	}
	dir, err := r.folderOf("func TestUDPStorm(")
	if err != nil {
		return err
	}
	return r.do(ctx, nil, "go", "test", "-count=1", "-timeout", "5m30s", "-run", "^TestUDPStorm$",
		"-v", "./"+dir, "-udpstorm.messages=50000")
}

// storm runs test/storm with many messages.
func storm(ctx context.Context, r *runner) error {
	if !r.present("test/storm") {
		return skip("the tree has no test/storm")
	}
	return r.do(ctx, nil, "go", "test", "-count=1", "-timeout", "5m30s", "-run",
		"^TestStorm$", "-v",
		"./test/storm", "-storm.messages=500000")
}

// folderOf returns the folder of the test file that contains a text.
func (r *runner) folderOf(text string) (string, error) {
	files, err := layers.Files(r.root, ".go")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(f)))
		if err != nil {
			return "", err
		}
		if bytes.Contains(b, []byte("\n"+text)) {
			return path.Dir(f), nil
		}
	}
	return "", fmt.Errorf("no test file contains %q", text)
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

// throughs returns the layers to certify through. Combinations of layers take turns.
func throughs() [][]string {
	list := [][]string{{"--through", "accesslayer"}}
	if runtime.GOOS != "linux" {
		return list
	}
	// Messages and shared queues take turns with the whole catalog. The other one runs the verbs of most programs.
	layers := []string{"user", "bypass"}
	turn, all := testenv.Turn(len(layers))
	for i, layer := range layers {
		args := []string{"--through", layer}
		if i != turn && !all {
			args = append(args, "--profile", "ud")
		}
		list = append(list, args)
	}
	combined := [][]string{
		{"--through", "accesslayer", "--through", "user"},
		{"--through", "accesslayer", "--through", "bypass"},
		{"--through", "user", "--through", "accesslayer"},
		{"--through", "accesslayer", "--through", "accesslayer"},
	}
	part, whole := testenv.Turn(len(combined))
	if whole {
		return append(list, combined...)
	}
	return append(list, combined[part])
}

// referenceLinks are the links over which the reference HCA is certified. The unusual ones take turns.
func referenceLinks(w io.Writer) [][]string {
	list := [][]string{
		{"--link", "udp"}, {"--link", "direct"}, {"--link", "network"},
		{"--link", "direct", "--profile", "minimal", "--set", "claims=few"},
	}
	unusual := [][]string{
		{"--link", "direct", "--set", "odd=1"},
		{"--link", "network", "--set", "odd=1"},
		{"--link", "direct", "--set", "legal=1"},
		{"--link", "network", "--set", "legal=2"},
		{"--link", "network", "--set", "ip=6"},
		{"--link", "direct", "--set", "agents=hardware"},
		{"--link", "direct", "--set", "agents=passing", "--set", "odd=1"},
		{"--link", "udp", "--set", "ip=6"},
	}
	if err := hasIP6(); err != nil {
		fmt.Fprintf(w, "      not run over UDP with IPv6: this machine has no IPv6 loopback (%v)\n", err)
		unusual = unusual[:len(unusual)-1]
	}
	turn, all := testenv.Turn(len(unusual))
	if all {
		return append(list, unusual...)
	}
	return append(list, unusual[turn])
}

// mlx4Links are the links over which the ConnectX-3 driver is certified, alone and through a daemon, with and without
// its user library. Both lists take turns, so that each turn has two runs.
func mlx4Links() [][]string {
	alone := [][]string{
		{"--link", "infiniband"},
		{"--link", "fabric"},
		{"--link", "ethernet"},
		{"--link", "ethernet", "--set", "roce=1"},
		{"--link", "infiniband", "--set", "odd=1"},
		{"--link", "ethernet", "--set", "odd=1"},
		{"--link", "infiniband", "--set", "bus=vfio-user"},
		{"--link", "ethernet", "--set", "bus=vfio-user"},
	}
	through := [][]string{
		{"--through", "bypass", "--link", "ethernet"},
		{"--through", "bypass", "--link", "ethernet", "--set", "roce=1"},
		{"--through", "bypass", "--link", "infiniband"},
		{"--through", "bypass", "--link", "fabric"},
		{"--through", "user", "--link", "ethernet"},
		{"--through", "user", "--link", "ethernet", "--set", "roce=1"},
		{"--through", "user", "--link", "infiniband"},
		{"--through", "user", "--link", "fabric"},
	}
	turn, all := testenv.Turn(len(alone))
	if all {
		return append(alone, through...)
	}
	return [][]string{alone[turn], through[turn]}
}

func certify(ctx context.Context, r *runner) error {
	bin, cleanup, err := r.validator(ctx)
	if err != nil {
		return err
	}
	defer cleanup()
	var runs [][]string
	add := func(driver []string, list ...[]string) {
		for _, args := range list {
			runs = append(runs, slices.Concat([]string{"run"}, driver, args))
		}
	}
	add([]string{"reference"}, referenceLinks(r.out)...)
	add([]string{"reference", "--link", "network"}, throughs()...)
	add([]string{"mlx4"}, mlx4Links()...)
	for _, args := range runs {
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
	return r.do(ctx, nil, "go", "test", "-count=1", "-timeout", timeout.String(),
		"-run", "^TestKillClients$", "-v", "./cmd/ddkd/cli", "-kills="+strconv.Itoa(r.numKills))
}

// mutantParts is the number of parts of the mutants. One of them runs.
const mutantParts = 8

func mutants(ctx context.Context, r *runner) error {
	bin, cleanup, err := r.validator(ctx)
	if err != nil {
		return err
	}
	defer cleanup()
	args := []string{"self", "--whole"} // the reference has all that a mutant needs
	if part, whole := testenv.Turn(mutantParts); !whole {
		args = append(args, "--shard", fmt.Sprintf("%d/%d", part+1, mutantParts))
	}
	return r.do(ctx, nil, bin, args...)
}

const (
	// numMutations is the number of source mutants that the mutation step judges.
	numMutations = 5
	// mutationFloor is a percentage far below the score in docs/mutation.md, because a small sample varies much.
	mutationFloor = 50
)

// mutationFolders are the packages of the mutation step, one of them on each commit. All mutants of one are judged by
// the same certifications, so that these are made once without a mutant.
var mutationFolders = []string{"rvt", "accesslayer", "kproxy", "link", "rvt", "accesslayer", "kproxy",
	"sma", "hca/reference"}

// mutation judges a small sample of source mutants. Survivors are printed; a low score of certifier and tests together
// is a failure.
func mutation(ctx context.Context, r *runner) error {
	if !r.present("internal/mutate") {
		return skip("the tree has no internal/mutate")
	}
	folder := strings.Join(mutationFolders, ",")
	if part, whole := testenv.Turn(len(mutationFolders)); !whole {
		folder = mutationFolders[part]
	}
	return r.do(ctx, nil, "go", "run", "./internal/mutate", "-packages", folder,
		"-n", strconv.Itoa(numMutations), "-tests", "-seed", strconv.FormatUint(r.commitSeed(ctx), 10),
		"-floor", strconv.Itoa(mutationFloor))
}

// commitSeed returns a seed that differs between commits, or 1 without git.
func (r *runner) commitSeed(ctx context.Context) uint64 {
	words, err := r.output(ctx, nil, "git", "rev-parse", "HEAD")
	if err != nil || len(words) != 1 || len(words[0]) < 8 {
		return 1
	}
	seed, err := strconv.ParseUint(words[0][:8], 16, 64)
	if err != nil {
		return 1
	}
	return seed
}
