// Command first is the README's first program: two software adapters on two loopback addresses, a reliable connection, one message.
package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"

	"ciddk/ci"
	"ciddk/hca/reference"
)

func main() { run(os.Stdout) }

// node is one end: an adapter, and what a connection needs.
type node struct {
	gid    ci.GID
	qp     ci.QP
	cq     ci.CQ
	psn    ci.PSN
	buf    []byte
	region ci.Region
	closed func()
}

// open makes an adapter on addr, and everything up to a queue pair.
func open(addr string) *node {
	udp := reference.UDP(reference.UDPConfig{Addr: netip.MustParseAddr(addr)})
	hca := must(reference.New(reference.Config{Ports: []reference.PortConfig{udp}}))
	ca := must(hca.OpenCA(hca.Info().GUID, func(ci.Event) {}, nil))
	pd := must(ca.AllocatePD(ci.PDNormal))
	n := &node{gid: must(ca.Query()).Ports[0].GIDs[0].GID, psn: randomPSN(), buf: make([]byte, 4096)}
	mr := must(pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(n.buf), Access: ci.LocalWrite}))
	n.region = mr.Region()
	n.cq = must(pd.CreateCQ(ci.CQCreate{Size: 16}))
	n.qp = must(pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: n.cq, RecvCQ: n.cq,
		QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 1, RecvSGE: 1}}))
	n.closed = func() { // child before parent
		check(n.qp.Destroy(), n.cq.Destroy(), mr.Destroy(), pd.Destroy(), ca.Close(), hca.Close())
	}
	return n
}

// connect takes n's queue pair to Ready To Send, with peer at the other end.
func (n *node) connect(peer *node) {
	path := ci.Path{AckTimeout: 14, AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: peer.gid, HopLimit: 64}}}
	check(
		n.qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}),
		n.qp.Modify(ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, Primary: path, MTU: ci.MTU1024, DestNum: peer.qp.Num(),
			RQPSN: peer.psn, RespRes: 1, MinRNRTimer: 12}),
		n.qp.Modify(ci.QPFieldsRTS, ci.QPAttr{State: ci.QPRTS, Primary: path, SQPSN: n.psn, InitDepth: 1, RetryCount: 7, RNRRetry: 7}))
}

// wait polls until a completion comes. Retries are finite, so one does.
func (n *node) wait() ci.WC {
	var wc [1]ci.WC
	for must(n.cq.Poll(wc[:])) == 0 {
	}
	if wc[0].Status != ci.WCSuccess {
		log.Fatal(wc[0].Status)
	}
	return wc[0]
}

func run(out io.Writer) {
	a, b := open("127.0.0.1"), open("127.0.0.2")
	defer a.closed()
	defer b.closed()
	a.connect(b)
	b.connect(a)

	must(b.qp.PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{b.region.SGE(0, 4096)}}}))
	n := copy(a.buf, "Hello over RoCEv2")
	must(a.qp.PostSend([]ci.SendWR{{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{a.region.SGE(0, uint32(n))}}}))
	fmt.Fprintf(out, "received %q\n", b.buf[:b.wait().Length])
	a.wait()
}

// randomPSN keeps packets of an earlier connection from passing for ours.
func randomPSN() ci.PSN {
	var b [4]byte
	must(rand.Read(b[1:]))
	return ci.PSN(binary.BigEndian.Uint32(b[:]))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(errs ...error) {
	for _, err := range errs {
		if err != nil {
			log.Fatal(err)
		}
	}
}
