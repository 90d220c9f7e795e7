package verbs

import (
	"context"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// recordedFile has what the probes print on Linux's own Soft-RoCE, of Debian 12 (Linux 6.1, rdma-core 44).
const recordedFile = "testdata/probes/linux.txt"

var record = flag.String("record", "", "TestRecordProbes runs the probes with these names, separated by commas, or "+
	"all, in a guest, and writes "+recordedFile)

// facts are what probes print: values by keys, such as mr_flags.0x2.
type facts map[string]string

// newFacts parses the output of probes, and recordedFile, in which lines with # are comments.
func newFacts(t *testing.T, out string) facts {
	f := facts{}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		require.True(t, ok, "%q", line)
		require.NotContains(t, f, key)
		f[key] = value
	}
	return f
}

// probeOf returns the name of the probe that printed a fact.
func probeOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// compileProbes compiles the probes, which are C programs with unusual uses of the verbs API.
func compileProbes(t *testing.T) string {
	sources, err := filepath.Glob("testdata/probes/*.c")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	if found, _ := filepath.Glob("/usr/include/rdma/rdma_cma.h"); len(found) == 0 { // the pattern is valid
		t.Skip("no rdma/rdma_cma.h (Debian: librdmacm-dev)")
	}
	first, err := filepath.Rel("testdata", sources[0])
	require.NoError(t, err)
	return compile(t, first, append(sources[1:], "-l:libibverbs.so.1", "-l:librdmacm.so.1")...)
}

// A deviation is a difference from Linux's Soft-RoCE that is meant to be.
type deviation struct {
	keys   string // a pattern of path.Match
	reason string
}

const (
	bySpecification = "as the InfiniBand specification has it, and adapters"
	attribute       = "an attribute of the adapter"
	wider           = "Soft-RoCE does not check a field that has fewer bits on the wire"
	shortTable      = "the GID table ends with the last entry that is in use"
	granted         = "the sizes are those that were granted"
	notSetByLinux   = "Soft-RoCE returns a value that nobody has set"
	noMigration     = "the adapter migrates paths, Soft-RoCE does not"
	ownStatus       = "errors of local memory have statuses of their own"
	eventOfFailure  = "adapters report the failure of a responder, Soft-RoCE does not"
	keptByLinux     = "Soft-RoCE keeps a request that it has refused, and executes it later"
	storedReply     = "Linux stores the reply of a second context, which it then refuses"
	eventSocket     = "the descriptor of events is a socket, on which a program can see that and write"
	notChanged      = "calls that would change the tree are not redirected, and find no file"
	later           = "Linux has ATOMIC WRITE and FLUSH from 6.2 on"
	deviceSocket    = "the descriptor of a device file is a socket, for which a program can poll"
)

var deviations = []deviation{
	{"attributes.page_sizes", attribute},
	{"attributes.cap_flags*", attribute},
	{"attributes.pkeys", attribute},
	{"attributes.vendor", attribute},
	{"ports.max_msg_sz", attribute},
	{"tables.gid*", shortTable},
	{"handles.*_gid", shortTable},
	{"values.av.gid*", shortTable},
	{"mr_ranges.none.read", "the daemon copies memory, which a process must be able to read"},
	{"mr_ranges.file.shared", "memory is not pinned, so that files need not be writable"},
	{"mr_ranges.iova.wrap", bySpecification},
	{"zero_based.[01].*", "Soft-RoCE ignores the flag that ibv_reg_mr(3) describes"},
	{"srq.*.attr", granted},
	{"srq.qp.cap", "a QP with an SRQ has no receive queue"},
	{"srq_limit.[01]", "a GRH flag of connected QPs, whose messages have none"},
	{"srq_limit.last_wqe", bySpecification},
	{"qp_create.cap.4.got", granted},
	{"values.pkey*", "Soft-RoCE ignores the index"},
	{"values.mtu.0", wider},
	{"values.rd.*", wider},
	{"values.rnr*", wider},
	{"values.retry.*", wider},
	{"values.mig.*", noMigration},
	{"query.*.alt", notSetByLinux},
	{"query.*.av", notSetByLinux},
	{"query.*.path", notSetByLinux},
	{"query.*.state", notSetByLinux},
	{"query.*.cap", granted},
	{"posts.*.reset.to_err", bySpecification},
	{"posts.*.init.flushed", keptByLinux},
	{"posts.*.rtr.flushed", keptByLinux},
	{"posts.*.err.*", "Soft-RoCE does not complete receives that are posted in the state Error"},
	{"transitions.*.reset.err*", bySpecification},
	{"transitions.*.init.rtr.masks", noMigration},
	{"transitions.*.rtr.rts.masks", noMigration},
	{"transitions.*.rts.*", noMigration},
	{"transitions.*.sqd.*", "a QP whose send queue is drained can change more attributes"},
	{"datagrams.wc", "the service level is the type of the IP header, as on ConnectX adapters, where UCX looks for it"},
	{"multicast.ipv6", "an adapter without an IPv6 address is in no IPv6 groups"},
	{"opcodes.*.[123].recv", "a GRH flag of connected QPs, whose messages have none"},
	{"opcodes.uc.4.a", bySpecification},
	{"opcodes.rc.7.send", bySpecification},
	{"opcodes.rc.15.send", later},
	{"mr_flags.more.0x[12]00", later},
	{"requester.lkey.send", ownStatus},
	{"requester.other_pd.send", ownStatus},
	{"requester.long.*", ownStatus},
	{"requester.inline.read.send", ownStatus},
	{"requester.sges.*", "a request with too many segments is rejected when it is posted"},
	{"requester.flags.*", "the queue has flags of its own behind those of the API"},
	{"keys.*.events", eventOfFailure},
	{"keys.imm.recv", bySpecification},
	{"keys.inv.type2.recv",
		"Soft-RoCE sets the kernel's flag of an invalidation, which has another meaning for programs"},
	{"responder.*.events", eventOfFailure},
	{"responder.*.recv", ownStatus},
	{"responder.*short*", "messages that are too long are a length error; UC drops them"},
	{"responder.no_sge.send", "messages that are too long are a length error"},
	{"cm_binds.none.fe80::1", "link-local addresses need no interface, since an adapter may have none"},
	{"cm_calls.route.join.1*", "an ID whose route is resolved can still join groups"},
	{"cm_resolves.*.local", "a connection within the machine has the addresses of the port, not 127.0.0.1 or ::1"},
	{"cm_resolves.127.0.0.1.*.own.event", "an ID that is bound to a loopback address reaches all addresses"},
	{"datagrams.short.*", "datagrams that are too long for a receive are dropped"},
	{"datagrams.long.*", "a datagram has one packet"},
	{"datagrams.write.a", bySpecification},
	{"datagrams.qkey.high.*", bySpecification},
	{"descriptors.poll.events", deviceSocket},
	{"descriptors.select", deviceSocket},
	{"descriptors.epoll", deviceSocket},
}

// fileDeviations are those of the probes of system calls, with both carriers.
var fileDeviations = []deviation{
	{"descriptors.again.context", storedReply},
	{"descriptors.left.context", storedReply},
	{"descriptors.dup3.original.context", storedReply},
	{"channels.*.write", eventSocket},
	{"channels.*.writev", eventSocket},
	{"channels.*.send", eventSocket},
	{"channels.*.FIONREAD", eventSocket},
	{"channels.*.poll*", eventSocket},
	{"paths.unlink", notChanged},
	{"paths.mkdir", notChanged},
	{"paths.rename", notChanged},
	{"paths.truncate", notChanged},
	{"paths.chmod", notChanged},
	{"paths.fopen.write", "files of the tree cannot be written, by root neither"},
}

// seccompDeviations are those of the probes of system calls with the carrier seccomp alone.
var seccompDeviations = []deviation{
	{"descriptors.mmap.none", "the descriptor of a device file is memory, which programs can map at once"},
	{"descriptors.mmap.beyond", "the descriptor of a device file is memory, of which mmap does not check the end"},
	{"paths.fstat.type", "an open file of sysfs has the size of its content"},
}

// fileProbes are the probes of system calls that libraries do not make.
var fileProbes = []string{"writes", "transfers", "descriptors", "channels", "paths"}

// isDeviation reports whether a difference is meant to be, and marks the entries that match.
func isDeviation(t *testing.T, list []deviation, key string, used []bool) (ok bool) {
	for i, d := range list {
		match, err := path.Match(d.keys, key)
		require.NoError(t, err)
		ok = ok || match
		used[i] = used[i] || match
	}
	return ok
}

// difference returns the keys whose values differ.
func difference(a, b facts) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	maps.DeleteFunc(all, func(key, _ string) bool {
		x, inA := a[key]
		y, inB := b[key]
		return inA && inB && x == y
	})
	return slices.Sorted(maps.Keys(all))
}

// TestProbes runs programs that use the API in unusual ways: invalid arguments, requests in each state, transitions
// with each set of attributes, all kinds of errors, system calls that libraries do not make. It compares what they
// print with what they print on Linux's own Soft-RoCE. A probe with differences is repeated with more time for what
// happens by itself.
func TestProbes(t *testing.T) {
	testenv.Long(t)
	linux := recorded(t)
	comparison{newRig(t), compileProbes(t), linux, slices.Concat(deviations, fileDeviations)}.check(t)
}

// TestSeccompProbes is TestProbes for the probes of system calls, with the other carrier.
func TestSeccompProbes(t *testing.T) {
	linux := recorded(t)
	maps.DeleteFunc(linux, func(key, _ string) bool { return !slices.Contains(fileProbes, probeOf(key)) })
	r := newSeccompRig(t)
	r.flags = []string{"--carrier", "seccomp"}
	comparison{r, compileProbes(t), linux, slices.Concat(fileDeviations, seccompDeviations)}.check(t)
}

// memoryProbes are the probes of memory regions and windows.
var memoryProbes = []string{"mr_flags", "mr_ranges", "rereg", "windows", "binds", "zero_based"}

// TestShareProbes is TestProbes for the probes of memory, with the other choices of --share-memory.
func TestShareProbes(t *testing.T) {
	testenv.Long(t)
	ofMemory := func(key string) bool { return slices.Contains(memoryProbes, probeOf(key)) }
	linux := recorded(t)
	maps.DeleteFunc(linux, func(key, _ string) bool { return !ofMemory(key) })
	meant := slices.DeleteFunc(slices.Clone(deviations), func(d deviation) bool { return !ofMemory(d.keys) })
	for _, flag := range []string{"--share-memory", shareNever} {
		t.Run(flag, func(t *testing.T) {
			r := newRig(t)
			r.flags = []string{flag}
			comparison{r, compileProbes(t), linux, meant}.check(t)
		})
	}
}

// recorded returns the recorded facts.
func recorded(t *testing.T) facts {
	if found, _ := filepath.Glob("/usr/lib/*/libibverbs/librxe-rdmav34.so"); len(found) == 0 { // the pattern is valid
		t.Skip("the library is not that with which Linux's answers were recorded, rdma-core 44")
	}
	if skip != "" {
		t.Skip(skip)
	}
	b, err := os.ReadFile(recordedFile)
	require.NoError(t, err)
	return newFacts(t, string(b))
}

// comparison is a comparison with recorded facts.
type comparison struct {
	rig        *rig
	program    string
	linux      facts
	deviations []deviation
}

// check checks that all differences are meant to be, and that there are all those that are meant to be.
func (c comparison) check(t *testing.T) {
	ours := facts{}
	probes := probesOf(slices.Collect(maps.Keys(c.linux)))
	for delay := 20; len(probes) > 0 && delay < 10000; delay *= 2 {
		for _, name := range probes {
			maps.DeleteFunc(ours, func(key, _ string) bool { return probeOf(key) == name })
			maps.Copy(ours, newFacts(t, runProbe(c.rig, c.program, name, delay)))
		}
		wrong, unused := c.judge(t, ours)
		probes = probesOf(slices.Concat(wrong, unused))
	}
	wrong, unused := c.judge(t, ours)
	for _, key := range wrong {
		assert.Equal(t, c.linux[key], ours[key], "%s: ours is not Linux's", key)
	}
	assert.Empty(t, unused, "entries of deviations without a difference")
}

// judge returns the keys of the differences that are not meant to be, and the patterns of deviations that there are
// not.
func (c comparison) judge(t *testing.T, ours facts) (wrong, unused []string) {
	used := make([]bool, len(c.deviations))
	for _, key := range difference(ours, c.linux) {
		if !isDeviation(t, c.deviations, key, used) {
			wrong = append(wrong, key)
		}
	}
	for i, d := range c.deviations {
		if !used[i] {
			unused = append(unused, d.keys)
		}
	}
	return wrong, unused
}

// probesOf returns the names of the probes that print facts.
func probesOf(keys []string) []string {
	var list []string
	for _, key := range keys {
		list = append(list, probeOf(key))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// runProbe runs a probe with ddkrun, and returns what it prints. A probe that fails says so.
func runProbe(r *rig, program, name string, delay int) string {
	cmd, out := r.command(program, "-d", strconv.Itoa(delay), name)
	_ = cmd.Run()
	return out.String()
}

// TestRecordProbes records what probes print on Linux's own Soft-RoCE. The file keeps the facts of other probes.
func TestRecordProbes(t *testing.T) {
	if *record == "" {
		t.Skip("records with -record")
	}
	program := compileProbes(t)
	names, err := exec.Command(program, "-l").Output()
	require.NoError(t, err)
	before, err := os.ReadFile(recordedFile)
	require.NoError(t, err)
	n, err := guest.NewNetwork(t.Context(), guest.NetworkConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	c := &recorder{t: t, net: n, program: program}
	var all strings.Builder
	for name := range strings.FieldsSeq(string(names)) {
		if *record == "all" || slices.Contains(strings.Split(*record, ","), name) {
			all.WriteString(c.record(name))
			continue
		}
		for line := range strings.Lines(string(before)) {
			if probeOf(line) == name {
				all.WriteString(line)
			}
		}
	}
	header := "# TestRecordProbes has recorded this on Linux " + c.kernel + ".\n"
	if *record != "all" {
		require.True(t, strings.HasPrefix(string(before), header), "the other facts are those of another kernel")
	}
	require.NoError(t, os.WriteFile(recordedFile, []byte(header+all.String()), 0o644))
}

// recorder runs probes in guests.
type recorder struct {
	t       *testing.T
	net     *guest.Network
	program string
	linux   *guest.Guest // nil: none runs
	kernel  string       // the release of the kernel
}

// record returns what a probe prints. A guest in which its process does not end is replaced: in Linux 6.1, a process
// with some objects waits for ever when it exits.
func (r *recorder) record(name string) string {
	const attempts = 3
	for range attempts {
		began := time.Now()
		out, err := r.run(name)
		r.t.Logf("%s: %v, error: %v", name, time.Since(began), err)
		if err != nil && r.linux != nil {
			r.t.Logf("console: %s", r.linux.Console())
			require.NoError(r.t, r.linux.Close())
			r.linux = nil
		}
		if strings.HasSuffix(out.Stdout, "\n"+name+".done = ok\n") && out.Stderr == "" {
			newFacts(r.t, out.Stdout)
			return out.Stdout
		}
		r.t.Logf("%s%s", out.Stdout, out.Stderr)
	}
	require.FailNow(r.t, "a probe does not complete", name)
	return ""
}

// run runs a probe once. An emulated machine is slow, so that what happens by itself has a second.
func (r *recorder) run(name string) (guest.Result, error) {
	const exit = 30 * time.Second // the time in which a process must end
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*patience)
	defer cancel()
	if r.linux == nil {
		g, err := r.net.Boot(ctx, guest.Config{Programs: []string{r.program}})
		if err != nil {
			return guest.Result{}, err
		}
		r.linux, r.kernel = g, g.Kernel()
	}
	p, err := r.linux.Start(ctx, filepath.Base(r.program), "-d", "1000", name)
	if err != nil {
		return guest.Result{}, err
	}
	if err := p.WaitOutput(ctx, "\n"+name+".done = "); err != nil {
		cancel()
	}
	defer time.AfterFunc(exit, cancel).Stop()
	return p.Wait()
}
