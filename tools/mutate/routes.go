package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// certification is one run of ddk-validate: its arguments after "run", without the driver if that is the reference HCA.
type certification []string

func (c certification) String() string { return strings.Join(c, " ") }

// only returns the certification with one case.
func (c certification) only(id string) certification {
	var list certification
	for i := 0; i < len(c); i++ {
		if c[i] == "--case" || c[i] == "--exclude" {
			i++
			continue
		}
		list = append(list, c[i])
	}
	return append(list, "--case", id)
}

// again returns the certification that repeats an uncertain run: the cases that its output names, by one process, which
// leaves them the machine. If it names none, all cases are repeated.
func (c certification) again(output string) certification {
	var ids []string
	for line := range strings.Lines(output) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "again" {
			continue
		}
		if i := slices.Index(f, "--case"); i >= 0 && i+1 < len(f) && !slices.Contains(ids, f[i+1]) {
			ids = append(ids, f[i+1])
		}
	}
	if len(ids) == 0 {
		return c
	}
	return append(c.only(strings.Join(ids, ",")), "--workers", "1")
}

// command returns the arguments after "run", with the driver.
func (c certification) command() []string {
	if len(c) > 0 && !strings.HasPrefix(c[0], "--") {
		return c
	}
	return slices.Concat([]string{"reference"}, c)
}

// route is how the certifier reaches the packages below a folder: its runs, quick ones first. Without runs, the folder
// is the kit's own code, which no driver can break: the tests of the mutated package judge it, and then all of tests.
type route struct {
	folder string
	tests  []string
	linux  bool // user mode is for Linux
	runs   []certification
	shared []certification // further runs, through shared queues, which need Linux
}

var (
	byDirect  = certification{"--link", "direct"}
	byNetwork = certification{"--link", "network"}
	byUDP     = certification{"--link", "udp"}
	byBypass  = certification{"--link", "network", "--through", "bypass"}

	// Ports, tables and limits with values that no default has. The link direct has the most of them.
	byOdd = byDirect.with("--set", "odd=1")
	byIP6 = byUDP.with("--set", "ip=6")
	// IPv6 with whole IP packets, addresses of both families, and several ports to send from: these change packets and
	// addresses, and nothing else.
	byAddress    = "wire.*,ud.*,mcast.*,av.*,qp.*,apm.*,rc.send.*,sma.perf.*"
	byNetwork6   = byNetwork.with("--set", "ip=6", "--case", byAddress)
	byOddNetwork = byNetwork.with("--set", "odd=1", "--case", byAddress)
	bySources    = byUDP.with("--set", "sources=4", "--case", byAddress)
	bySources6   = byIP6.with("--set", "sources=4", "--case", "ud.*,av.*,rc.send.*")
	// An adapter that claims nothing optional, and must reject it.
	byFew = byDirect.with("--profile", "minimal", "--set", "claims=few", "--case", "claims.*,opcode.*")
	// Only this link collects packets while a consumer polls, so that acknowledgements wait, and has reports of the
	// network.
	byPolling = byUDP.with("--case", "rc.*,wire.ack.*,special.undelivered")
	// Its driver reads what subnet management has set, without an M_Key.
	byModelMAD = certification{"mlx4", "--case", "mad.*,open.*"}
	// The model of the ConnectX-3 uses the engine in other ways: it names keys and numbers itself.
	byModel = certification{"mlx4", "--case", "mr.*,mw*,claims.*,qp.create.*,foreign.*,cq.*,srq.*,fault.*",
		"--exclude", "mr.loop"}

	onlySMA   = certification{"--link", "direct", "--profile", "sma"}
	hardSMA   = certification{"--link", "direct", "--profile", "sma", "--set", "agents=hardware"}
	oddSMA    = onlySMA.with("--set", "odd=1", "--case", "sma.*")
	hardWire  = byDirect.with("--set", "agents=hardware", "--case", "wire.smp.*,wire.drop.*")
	fabricSMA = certification{"--link", "fabric", "--profile", "sma"}

	onlyUser = certification{"--link", "network", "--profile", "user"}
	// Without the cases of services, which do not see the shared queues; of packets, which take long and which shared
	// queues do not change; and of many objects, which take half of the time of all cases.
	byRings = byBypass.with("--exclude",
		"al.*,cm.*,mad.*,sma.*,user.*,wire.*,impair.*,apm.*,limits.*,teardown.heap.*,mr.loop")
	// Its ports are of InfiniBand: completions have LIDs, service levels and path bits.
	ringsLIDs = byDirect.with("--through", "bypass", "--case", "ud.*,mcast.*,av.*")
	// The driver's user library, with answers and shared memory that are wrong.
	byLibrary = byNetwork.with("--case", "user.library.*")
)

// with returns the certification with more arguments.
func (c certification) with(args ...string) certification { return slices.Concat(c, args) }

var routes = []route{
	{folder: "rvt", runs: []certification{byDirect, byFew, byModel, byPolling, byNetwork, byOdd},
		shared: []certification{byRings, onlyUser}},
	{folder: "ci/driver", runs: []certification{byDirect, byFew, byModel, byNetwork},
		shared: []certification{byRings}},
	{folder: "hca/reference", runs: []certification{byDirect, byNetwork, byOdd, byFew, byNetwork6, hardSMA},
		shared: []certification{byRings}},
	{folder: "internal/rings", linux: true, runs: []certification{byNetwork, byRings, ringsLIDs}},
	{folder: "hca/reference/arena", linux: true, runs: []certification{byLibrary, byRings}},
	{folder: "hca/reference/userlib", linux: true, runs: []certification{byLibrary, byRings}},
	{folder: "link", runs: []certification{byDirect, byNetwork, byUDP, byIP6}},
	{folder: "link/internal/rocev2", runs: []certification{byNetwork, byUDP, byIP6, byNetwork6, byOddNetwork,
		bySources}},
	{folder: "link/direct", runs: []certification{byDirect, byOdd, hardSMA, hardWire,
		byModelMAD}},
	{folder: "link/sim", runs: []certification{byNetwork, byNetwork6, byOddNetwork}},
	{folder: "link/udp", runs: []certification{byUDP, byIP6, bySources, bySources6}},
	{folder: "internal/train", runs: []certification{byDirect, byNetwork, byUDP, byIP6}},
	{folder: "sma", runs: []certification{onlySMA, hardSMA, oddSMA, fabricSMA}},
	{folder: "accesslayer", tests: []string{"./accesslayer/..."}},
	{folder: "ual", tests: []string{"./ual/...", "./kproxy/..."}},
	{folder: "kproxy", linux: true, tests: []string{"./kproxy/...", "./ual/...", "./cmd/ddkd/..."}},
}

// isKit reports whether tests judge a package, and not the certifier.
func isKit(folder string) bool { return len(testsOf(folder)) > 0 }

// testsOf returns the tests that judge a package of the kit's own code.
func testsOf(folder string) []string {
	if r := routeAbove(folder); r != nil {
		return r.tests
	}
	return nil
}

// routeAbove returns the route of the longest folder above a package.
func routeAbove(folder string) (best *route) {
	for i := range routes {
		if r := &routes[i]; isBelow(folder, r.folder) && (best == nil || len(r.folder) > len(best.folder)) {
			best = r
		}
	}
	return best
}

// routeOf returns the runs that judge a package.
func routeOf(folder string) ([]certification, error) {
	best := routeAbove(folder)
	if best == nil {
		return nil, fmt.Errorf("no certification reaches %s; add it to routes", folder)
	}
	if best.linux && runtime.GOOS != "linux" {
		return nil, fmt.Errorf("the certifications of %s need Linux", folder)
	}
	if runtime.GOOS != "linux" {
		return best.runs, nil
	}
	return slices.Concat(best.runs, best.shared), nil
}

// defaultFolders returns the folders whose packages are mutated by default.
func defaultFolders() []string {
	var list []string
	for _, r := range routes {
		below := slices.ContainsFunc(routes, func(o route) bool {
			return o.folder != r.folder &&
				isBelow(r.folder, o.folder)
		})
		if !below && (!r.linux || runtime.GOOS == "linux") {
			list = append(list, r.folder)
		}
	}
	return list
}
