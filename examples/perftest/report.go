package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"ciddk/examples/perftest/exchange"
)

// A printer writes the tables of perftest, or with --json collects the results for one document.
type printer struct {
	w       io.Writer
	o       *options
	results []any
}

var line = strings.Repeat("-", 87)

// Column titles of the tables.
const (
	bandwidthTitle = " #bytes     #iterations    BW peak[%[1]s/sec]    BW average[%[1]s/sec]   MsgRate[Mpps]\n"
	latencyTitle   = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    " +
		"t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	latencyTimeTitle = " #bytes        #iterations       t_avg[usec]    tps average\n"
)

func (p *printer) printf(format string, args ...any) {
	if !p.o.JSON {
		fmt.Fprintf(p.w, format, args...)
	}
}

// waiting prints that a client can connect.
func (p *printer) waiting(at net.Addr) { p.printf(" Waiting for a client at %v\n", at) }

// header prints the settings of the test.
func (p *printer) header(s *session) {
	o := s.o
	kind := "BW"
	if o.Test.latency {
		kind = "Latency"
	} else if o.Both {
		kind = "Bidirectional BW"
	}
	name := verbTitles[o.Test.verb]
	if o.Test.verb == atomic {
		name += " " + o.Atomic
	}
	p.printf("%s\n                    %s %s Test\n", line, name, kind)
	p.printf(" Peer            : %v, perftest %s\n", s.peer, s.hello.Version)
	p.printf(" Number of qps   : %d\t\tConnection type : %v\n", o.QPs, o.Service)
	if o.sends() {
		p.printf(" TX depth        : %d\n", o.TxDepth)
	}
	if o.receives() {
		p.printf(" RX depth        : %d\n", o.RxDepth)
	}
	if o.PostList > 1 {
		p.printf(" Post List       : %d\n", o.PostList)
	}
	if !o.Test.latency {
		p.printf(" CQ Moderation   : %d\n", o.CQMod)
	}
	p.printf(" Mtu             : %d[B]\n GID index       : %d\n", s.hello.MTU.Bytes(), s.a.row)
	if o.Test.verb == read || o.Test.verb == atomic {
		p.printf(" Outstand reads  : %d\n", s.reads)
	} else {
		p.printf(" Max inline data : %d[B]\n", o.Inline)
	}
	method := "Ethernet"
	if s.talk.Binary {
		method = "rdma_cm"
	}
	p.printf(" rdma_cm QPs     : %s\n Data ex. method : %s\n%s\n", map[bool]string{true: "ON", false: "OFF"}[o.RDMACM],
		method, line)
}

// destinations prints the queue pairs and the title of the table.
func (p *printer) destinations(s *session) {
	for _, l := range s.lanes {
		p.destination("local", s.o, l.local)
	}
	for _, l := range s.lanes {
		p.destination("remote", s.o, l.remote)
	}
	p.printf("%s\n", line)
	switch unit := map[bool]string{false: "MB", true: "Gb"}[s.o.Gbits]; {
	case !s.o.Test.latency:
		p.printf(bandwidthTitle, unit)
	case s.o.client() || !s.o.Test.oneSided():
		p.printf("%s", map[bool]string{false: latencyTitle, true: latencyTimeTitle}[s.o.Duration > 0])
	}
}

func (p *printer) destination(side string, o *options, d exchange.Dest) {
	p.printf(" %s address: LID %#04x QPN %#06x PSN %#06x", side, uint16(d.LID), uint32(d.QPN), uint32(d.PSN))
	if o.Test.verb == read {
		p.printf(" OUT %#04x", d.OutReads)
	}
	if o.Test.verb == read || o.Test.verb == write {
		p.printf(" RKey %#08x VAddr %#016x", uint32(d.RKey), d.VAddr)
	}
	p.printf("\n GID: %v\n", netip.AddrFrom16(d.GID).Unmap())
}

// A bandwidthResult is a row of the table.
type bandwidthResult struct {
	Size    uint64  `json:"bytes"`
	Iters   uint64  `json:"iterations"`
	Peak    float64 `json:"bw_peak"`
	Average float64 `json:"bw_average"`
	Unit    string  `json:"bw_unit"`
	Rate    float64 `json:"msg_rate_mpps"`
}

func (p *printer) bandwidth(r exchange.Report) {
	p.printf(" %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n", r.Size, r.Iters, r.Peak, r.Average, r.Rate)
	unit := map[bool]string{false: "MB/s of 2^20 bytes", true: "Gb/s"}[p.o.Gbits]
	p.results = append(p.results, bandwidthResult{r.Size, r.Iters, r.Peak, r.Average, unit, r.Rate})
}

func (p *printer) latency(r latencyResult) {
	if p.o.Duration > 0 {
		p.printf(" %-7d       %d            %-7.2f        %-7.2f\n", r.Size, r.Iters, r.Average, r.Rate)
	} else {
		p.printf(" %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f "+
			"\t\t%-7.2f\n",
			r.Size, r.Iters, r.Min, r.Max, r.Typical, r.Average, r.Stdev, r.P99, r.P999)
	}
	p.results = append(p.results, r)
}

// A document is the output of --json.
type document struct {
	Test       string     `json:"test"`
	Role       string     `json:"role"`
	Connection string     `json:"connection"`
	RDMACM     bool       `json:"rdma_cm"`
	MTU        int        `json:"mtu"`
	Both       bool       `json:"bidirectional"`
	Peer       string     `json:"peer"`
	Version    string     `json:"peer_version"`
	QPs        []pairJSON `json:"qps"`
	Results    []any      `json:"results"` // of bandwidthResult or latencyResult
}

// A pairJSON is a queue pair and its peer.
type pairJSON struct {
	Local  destJSON `json:"local"`
	Remote destJSON `json:"remote"`
}

type destJSON struct {
	QPN uint32     `json:"qpn"`
	PSN uint32     `json:"psn"`
	GID netip.Addr `json:"gid"`
}

func newDestJSON(d exchange.Dest) destJSON {
	return destJSON{uint32(d.QPN), uint32(d.PSN), netip.AddrFrom16(d.GID).Unmap()}
}

// finish prints the end of the table, or the document.
func (p *printer) finish(s *session) error {
	if !p.o.JSON {
		p.printf("%s\n", line)
		return nil
	}
	d := document{
		Test: s.o.Test.String(), Role: map[bool]string{true: "client", false: "server"}[s.o.client()],
		Connection: s.o.Service.String(),
		RDMACM:     s.o.RDMACM, MTU: s.hello.MTU.Bytes(), Both: s.o.Both, Peer: s.peer.String(),
		Version: s.hello.Version,
		Results: p.results,
	}
	if d.Results == nil {
		d.Results = []any{}
	}
	for _, l := range s.lanes {
		d.QPs = append(d.QPs, pairJSON{newDestJSON(l.local), newDestJSON(l.remote)})
	}
	e := json.NewEncoder(p.w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
