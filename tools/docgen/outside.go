package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ciddk/validate"
	"ciddk/validate/suite"
)

// outside is a test in which a program from elsewhere judges what requirements demand.
type outside struct {
	program string
	file    string // relative to the module's root
	test    string
	judges  string
	ids     []string // requirements; one that ends with * stands for all with that prefix
}

// The programs of the tests.
const (
	byTshark   = "tshark"
	bySoftRoCE = "Linux, Soft-RoCE"
	byMlx4     = "Linux, mlx4"
	byOpenSM   = "OpenSM"
	byDiags    = "infiniband-diags"
	byVerbs    = "rdma-core"
)

// outsides are the tests, by program.
var outsides = []outside{
	{byTshark, "wire/tshark_test.go", "TestTsharkRoCE", "headers, lengths and checksums of RoCEv2 packets",
		[]string{"WIRE-Form-01", "WIRE-Form-02", "WIRE-Form-04", "WIRE-Form-07", "WIRE-Form-08", "WIRE-Form-10"}},
	{byTshark, "wire/tshark_test.go", "TestTsharkInfiniBand", "headers and checksums of InfiniBand packets",
		[]string{"WIRE-Form-13", "WIRE-Form-14", "WIRE-Form-17"}},
	{byTshark, "cmd/ddk-validate/wire_test.go", "TestWireEvidence", "packets of the certifier's captures over UDP",
		[]string{"WIRE-Form-15"}},
	{byTshark, "cmd/ddk-validate/wire_test.go", "TestWireEvidenceInfiniBand", "packets of the certifier's captures " +
		"over InfiniBand", []string{"WIRE-Form-15"}},
	{byTshark, "mad/tshark_test.go", "TestTsharkCM", "fields of CM messages",
		[]string{"CM-Req-01", "CM-Ans-01", "CM-End-01", "CM-Alt-01"}},
	{byTshark, "mad/tshark_test.go", "TestTsharkPerf", "fields of performance management", []string{"SMA-Perf-01"}},
	{byTshark, "mad/tshark_smp_test.go", "TestTsharkSMP", "fields of subnet management", []string{"SMA-Answer-01"}},
	{byTshark, "accesslayer/cm/tshark_test.go", "TestTshark", "a connection from REQ to DREP",
		[]string{"CM-Conn-01", "CM-Conn-02"}},
	{byTshark, "accesslayer/mads/tshark_test.go", "TestTshark", "messages of several segments",
		[]string{"MAD-GSI-01", "MAD-GSI-07"}},
	{bySoftRoCE, "test/linux/icrc_linux_test.go", "TestICRC", "the checksum of packets that Linux sent",
		[]string{"WIRE-Form-01"}},
	{bySoftRoCE, "test/linux/pingpong_linux_test.go", "TestRCPingpong", "messages on RC at each path MTU",
		[]string{"IBTA-9.7-01", "IBTA-9.7-02", "IBTA-9.7-03", "WIRE-Req-01", "WIRE-Ack-01"}},
	{bySoftRoCE, "test/linux/pingpong_linux_test.go", "TestUCPingpong", "messages on UC",
		[]string{"IBTA-9.8-01", "IBTA-9.8-05"}},
	{bySoftRoCE, "test/linux/pingpong_linux_test.go", "TestUDPingpong", "datagrams",
		[]string{"IBTA-9.8-10", "IBTA-9.8-12"}},
	{bySoftRoCE, "test/linux/pingpong_linux_test.go", "TestSRQPingpong", "shared receive queues", []string{"CI-SRQ-*"}},
	{bySoftRoCE, "test/linux/perftest_linux_test.go", "TestPerftest", "RDMA and atomics in both roles",
		[]string{"IBTA-9.4-01", "IBTA-9.4-04", "IBTA-9.4-06", "IBTA-9.4-10", "IBTA-9.4-11", "WIRE-Req-02",
			"WIRE-Req-03", "WIRE-Req-04"}},
	{bySoftRoCE, "test/linux/impair_linux_test.go", "TestImpaired", "RC over a bad link",
		[]string{"IBTA-9.7-10", "WIRE-Dup-*", "WIRE-Nak-01", "WIRE-Seq-03"}},
	{bySoftRoCE, "test/linux/rdmacm_linux_test.go", "TestRDMACM", "connections and SIDR in both roles",
		[]string{"CM-Conn-01", "CM-Conn-02", "CM-Conn-03", "CM-Conn-09", "CM-Sidr-01"}},
	{bySoftRoCE, "test/linux/rdmacm_linux_test.go", "TestRDMACMGroup", "multicast groups", []string{"CI-Mcast-01"}},
	{bySoftRoCE, "test/linux/rping_end_linux_test.go", "TestRPingEnds", "how connections end",
		[]string{"CM-End-01", "CM-Conn-06"}},
	{byMlx4, "test/mlx4/pair_linux_test.go", "TestInfiniBand", "connections between Linux and the device model",
		[]string{"IBTA-9.7-01", "IBTA-9.4-01", "IBTA-9.4-04"}},
	{byOpenSM, "test/opensm/sweep_test.go", "TestSweep", "ports that become active with LIDs of the manager",
		[]string{"SMA-Link-01", "SMA-Link-02", "SMA-Set-03", "SMA-Event-01", "SMA-Event-07", "CI-LocalMAD-02",
			"CI-LocalMAD-03"}},
	{byOpenSM, "test/opensm/life_test.go", "TestHeal", "traps of links that come and go",
		[]string{"SMA-Trap-02", "SMA-Trap-03"}},
	{byOpenSM, "test/opensm/life_test.go", "TestHandover", "a new manager", []string{"SMA-Event-02"}},
	{byOpenSM, "test/opensm/life_test.go", "TestMKey", "protection by M_Key", []string{"SMA-Key-01", "SMA-Key-02"}},
	{byOpenSM, "test/opensm/life_test.go", "TestPartitions", "P_Key tables that the manager sets",
		[]string{"SMA-Set-06", "SMA-Event-03"}},
	{byOpenSM, "test/opensm/sa_events_test.go", "TestRegistrationsSurvive", "clients that register again",
		[]string{"SMA-Set-04", "SMA-Event-06"}},
	{byDiags, "test/opensm/diags_test.go", "TestIbnetdiscover", "directed routes",
		[]string{"SMA-Link-02", "SMA-Table-01", "SMA-Table-08"}},
	{byDiags, "test/opensm/diags_test.go", "TestCounters", "counters of ports",
		[]string{"SMA-Perf-04", "SMA-Perf-05", "SMA-Perf-06"}},
	{byVerbs, "test/verbs/programs_linux_test.go", "TestPingpong", "RC, UC, UD and SRQ through the daemon, with data " +
		"that the programs validate", []string{"IBTA-9.7-01", "IBTA-9.8-01", "IBTA-9.8-10", "CI-Notify-01"}},
	{byVerbs, "test/verbs/extended_linux_test.go", "TestExtended", "windows, atomics and asynchronous events through " +
		"the daemon", []string{"CI-BindMWTwo-01", "IBTA-9.4-10", "IBTA-9.4-11", "SAS-2.1-10"}},
	{byVerbs, "test/verbs/rdmacm_linux_test.go", "TestConnect", "the programs of librdmacm through the daemon",
		[]string{"CM-Conn-01", "CM-Conn-05", "CM-Sidr-01"}},
	{byVerbs, "test/verbs/rdmacm_linux_test.go", "TestRefused", "a connection to nobody", []string{"CM-Conn-06"}},
	{byVerbs, "test/verbs/kill_linux_test.go", "TestKilled", "programs that are killed", []string{"SAS-2.4-15"}},
}

// disagreement is a requirement on which the certifier and a program differ, until it is decided.
type disagreement struct{ id, program, what string }

// disagreements are those that are open. The decided ones are in docs/sas/deviations.md.
var disagreements = []disagreement{}

// outsidePage lists the tests in which other programs judge a requirement. It fails if a test or a requirement does not
// exist.
func outsidePage(root string) (string, error) {
	catalog, err := validate.NewCatalog(suite.All()...)
	if err != nil {
		return "", err
	}
	var body strings.Builder
	body.WriteString("\n## Tests\n\n| program | test | judges | requirements |\n|---|---|---|---|\n")
	listed := map[string]bool{}
	for _, o := range outsides {
		if err := o.exists(root); err != nil {
			return "", err
		}
		for _, id := range o.ids {
			found := matching(catalog, id)
			if len(found) == 0 {
				return "", fmt.Errorf("outside checks: %s names the requirement %s, which does not exist", o.test, id)
			}
			for _, f := range found {
				listed[f] = true
			}
		}
		folder := filepath.ToSlash(filepath.Dir(o.file))
		fmt.Fprintf(&body, "| %s | `go test ./%s -run '^%s$'` | %s | %s |\n", o.program, folder, o.test, cell(o.judges),
			strings.Join(o.ids, ", "))
	}
	fmt.Fprintf(&body, "\nThese are %d of %d requirements.\n", len(listed), len(catalog.Requirements()))
	body.WriteString("\n## Disagreements\n\n")
	if len(disagreements) == 0 {
		body.WriteString("None is recorded. [Deviations](deviations.md) has those that were decided.\n")
	} else {
		body.WriteString("| requirement | program | difference |\n|---|---|---|\n")
	}
	for _, d := range disagreements {
		if len(matching(catalog, d.id)) == 0 {
			return "", fmt.Errorf("outside checks: the requirement %s of a disagreement does not exist", d.id)
		}
		fmt.Fprintf(&body, "| %s | %s | %s |\n", d.id, d.program, cell(d.what))
	}
	return headFrom("outside", "tools/docgen/outside.go") + body.String(), nil
}

// exists returns an error if the file has no such test.
func (o *outside) exists(root string) error {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(o.file)))
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), "\nfunc "+o.test+"(t *testing.T)") {
		return fmt.Errorf("outside checks: %s has no %s", o.file, o.test)
	}
	return nil
}

// matching returns the ids of the requirements that a pattern names.
func matching(c *validate.Catalog, pattern string) []string {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	var ids []string
	for _, r := range c.Requirements() {
		if r.ID == pattern || isPrefix && strings.HasPrefix(r.ID, prefix) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
