package cmid_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// newManager creates an HCA with a port, and a Manager that has only that HCA. Programs get it from rdmacm.Open and
// Manager.IDs.
func newManager(port rvt.Port) (m *cmid.Manager, closeAll func()) {
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	if err != nil {
		panic(err)
	}
	al := accesslayer.New(accesslayer.Config{})
	if err := al.Register(hca); err != nil {
		panic(err)
	}
	if m, err = open(al); err != nil {
		panic(err)
	}
	return m, func() { fmt.Println("closed:", errors.Join(m.Close(), al.Close(), hca.Close())) }
}

// region registers n bytes for an ID's QP.
func region(id *cmid.ID, n int) ([]byte, ci.Region) {
	pd, err := id.PD()
	if err != nil {
		panic(err)
	}
	b := make([]byte, n)
	mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite})
	if err != nil {
		panic(err)
	}
	return b, mr.Region()
}

// A server that accepts one client and receives one message. Here both ends are on one HCA. Usually they are on two
// machines, of which one may run Linux with its own programs, if the UDP port is the default.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, closeAll := newManager(testenv.Must(udp.New(udp.Config{Addr: netip.MustParseAddr("127.0.0.1"), Port: 24792})))
	defer closeAll()
	ln, err := m.Listen(netip.MustParseAddrPort("127.0.0.1:7174"), cmid.ListenConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		id, err := ln.Accept(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s asks\n", id.Request().Private[:6])
		_ = id.CreateQP(cmid.QPConfig{})
		buf, r := region(id, 64)
		_, _ = id.QP().PostRecv([]ci.RecvWR{{SGL: []ci.SGE{r.SGE(0, 64)}}}) // before the client can send
		if err := id.Accept(ctx, cmid.ConnParam{Private: []byte("come in")}); err != nil {
			fmt.Println(err)
			return
		}
		wc := make([]ci.WC, 1)
		_, _ = id.RecvCQ().Wait(ctx, wc)
		fmt.Printf("received: %s\n", buf[:wc[0].Length])
		<-id.Done()
		fmt.Println("server:", id.Err())
	}()

	id, err := m.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:7174"),
		cmid.DialConfig{Conn: cmid.ConnParam{Private: []byte("client")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v: %s\n", id.RemoteAddr(), id.Reply()[:7])
	buf, r := region(id, 64)
	n := copy(buf, "hello")
	_, _ = id.QP().PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{r.SGE(0, uint32(n))}}})
	wc := make([]ci.WC, 1)
	_, _ = id.SendCQ().Wait(ctx, wc)
	_ = id.Disconnect(ctx)
	<-done

	// Without a listener, the error is that of package net, and has the reason of the connection manager.
	_, err = m.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:1"), cmid.DialConfig{})
	r2, _ := errors.AsType[*cm.RejectError](err)
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED), r2.Reason)
	// Output:
	// client asks
	// 127.0.0.1:7174: come in
	// received: hello
	// server: the peer has disconnected
	// true invalid service ID
	// closed: <nil>
}

// A datagram to all members of a group.
func ExampleID_Join() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const grh = 40 // bytes before the data of a received datagram
	member := func(m *cmid.Manager, at string) (*cmid.ID, *cmid.Group) {
		id, _ := m.NewID(cmid.IDConfig{Space: cmid.UDP})
		_ = id.Bind(netip.MustParseAddrPort(at))
		_ = id.CreateQP(cmid.QPConfig{})
		g, err := id.Join(ctx, netip.MustParseAddr("239.77.1.2"), cmid.JoinConfig{})
		if err != nil {
			panic(err)
		}
		return id, g
	}
	net := sim.NewNetwork(sim.NetworkConfig{}) // in memory; use udp.New for a real network
	ma, closeA := newManager(testenv.Must(sim.New(net, sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})))
	defer closeA()
	mb, closeB := newManager(testenv.Must(sim.New(net, sim.Config{Addr: netip.MustParseAddr("10.0.0.2")})))
	defer closeB()
	a, g := member(ma, "10.0.0.1:0")
	b, _ := member(mb, "10.0.0.2:0")
	in, r := region(b, grh+64)
	_, _ = b.QP().PostRecv([]ci.RecvWR{{SGL: []ci.SGE{r.SGE(0, grh+64)}}})

	pd, _ := a.PD()
	av, _ := pd.NewAV(g.Peer().AV)
	out, r := region(a, 64)
	n := copy(out, "to all")
	_, _ = a.QP().PostSend([]ci.SendWR{{Op: ci.OpSend, SGL: []ci.SGE{r.SGE(0, uint32(n))},
		To: ci.Dest{AV: av, QPN: g.Peer().QPN, QKey: g.Peer().QKey}}})
	wc := make([]ci.WC, 1)
	_, _ = b.RecvCQ().Wait(ctx, wc)
	fmt.Printf("%s\n", in[grh:wc[0].Length])
	// Output:
	// to all
	// closed: <nil>
	// closed: <nil>
}
