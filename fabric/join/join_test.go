package join

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds what a test waits for.
const deadline = testenv.Patience

// serve serves a fabric of h1 to h8 with active ports, and returns the path of its socket.
func serve(t testing.TB, c Config) (*fabric.Fabric, *Server, string) {
	t.Helper()
	g, err := topology.FatTree{Down: []int{4, 2}, Up: []int{1, 2}}.Generate()
	require.NoError(t, err)
	f, err := fabric.New(g, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	require.NoError(t, f.Configure())
	path := filepath.Join(t.TempDir(), "fabric.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := Serve(f, l, c)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return f, s, path
}

func dial(t testing.TB, path, node string) *Port {
	t.Helper()
	p, err := Dial(t.Context(), path, node, 0)
	require.NoError(t, err)
	return p
}

// Every operation of RC works between a joined adapter and one in the process of the fabric, in both directions.
func TestReliableConnection(t *testing.T) {
	f, _, path := serve(t, Config{})
	a := linktest.Open(t, ci.RC, 1<<19, dial(t, path, "h1"))
	local, err := f.CAPort("h8", 0)
	require.NoError(t, err)
	b := linktest.Open(t, ci.RC, 1<<19, local)
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)
	linktest.Exercise(t, b, a)
	assert.NotZero(t, a.HCA.Counters()["join_rcv_packets"])
	assert.Zero(t, a.HCA.Counters()["join_rcv_invalid"])
}

// openUD moves the QP of a node to RTS.
func openUD(t testing.TB, n *linktest.Node) {
	t.Helper()
	require.NoError(t, n.QP.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 7}))
	require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
	require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS}))
}

// Datagrams with a GRH keep it, and those to a group reach the members of all processes.
func TestMulticast(t *testing.T) {
	f, _, path := serve(t, Config{})
	gid := ci.GID{0xff, 0x12, 15: 9}
	const mlid = 0xc001
	var nodes []*linktest.Node
	for _, name := range []string{"h1", "h2", "h3"} {
		n := linktest.Open(t, ci.UD, 1<<12, dial(t, path, name))
		openUD(t, n)
		g, err := n.QP.AttachMcast(ci.McastAttach{GID: gid, LID: mlid})
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Destroy()) }()
		n.Recv(ci.RecvWR{SGL: n.SGE(0, 64)})
		nodes = append(nodes, n)
	}
	table := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetDirected, ClassVersion: 1,
		Method: mad.Set, TID: 1, Attribute: mad.AttrMulticastTable}, DrSLID: 0xffff, DrDLID: 0xffff}
	table.SetHops(0, 1)
	table.InitialPath[1] = 1
	binary.BigEndian.PutUint16(table.Data[2:], 0x1e) // ports 1 to 4: the adapters of the leaf
	var m ci.MAD
	table.Put(m[:])
	p, err := f.Port("h1", 1)
	require.NoError(t, err)
	_ = p.Send(&fabric.Datagram{SLID: 0xffff, DLID: 0xffff, MAD: &m}) // no client takes the response
	av, err := nodes[0].PD.CreateAV(ci.AVAttr{Port: 1, DLID: mlid, Global: true, GRH: ci.GRH{DGID: gid, HopLimit: 1}})
	require.NoError(t, err)
	defer func() { require.NoError(t, av.Destroy()) }()
	nodes[0].Send(ci.SendWR{Op: ci.OpSend, To: ci.Dest{AV: av, QPN: 0xffffff, QKey: 7}})
	for i, n := range nodes {
		n.Poll(1)
		assert.Equal(t, gid[:], n.Buf[24:40], "the GRH at node %d", i)
	}
}

// The connection is the cable: when it ends, the port of the fabric is down, and the next process plugs it in again. A
// cable that somebody else cut stays cut.
func TestDisconnect(t *testing.T) {
	f, s, path := serve(t, Config{})
	p := dial(t, path, "h3")
	_, err := Dial(t.Context(), path, "h3", 1)
	require.ErrorContains(t, err, "has an adapter")
	h3, err := f.Port("h3", 1)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.Eventually(t, func() bool { return h3.State() == ci.PortDown && s.Sessions() == 0 }, deadline,
		time.Millisecond)
	p = dial(t, path, "h3")
	assert.Equal(t, ci.PortInit, h3.State())
	assert.Equal(t, ci.PortInit, p.Attr().State)
	require.NoError(t, h3.SetLink(false))
	require.NoError(t, p.Close())
	require.Eventually(t, func() bool { return s.Sessions() == 0 }, deadline, time.Millisecond)
	p = dial(t, path, "h3")
	assert.Equal(t, ci.PortDown, p.Attr().State)
	require.NoError(t, p.Close())
}

// TestJoinAgain joins a port as soon as its process has left it, which the fabric may not have noticed.
func TestJoinAgain(t *testing.T) {
	_, _, path := serve(t, Config{})
	for range 100 {
		require.NoError(t, dial(t, path, "h3").Close())
	}
}

// Changes of the port reach the adapter with their events, as does the end of the fabric.
func TestEvents(t *testing.T) {
	f, s, path := serve(t, Config{})
	n := linktest.Open(t, ci.UD, 64, dial(t, path, "h2"))
	h2, err := f.Port("h2", 1)
	require.NoError(t, err)
	wait := func(want ci.EventType) {
		t.Helper()
		for {
			select {
			case e := <-n.Events:
				if e.Type == want {
					return
				}
			case <-time.After(deadline):
				require.FailNow(t, "no event", want.String())
			}
		}
	}
	state := func() ci.PortState {
		a, err := n.CA.Query()
		require.NoError(t, err)
		return a.Ports[0].State
	}
	require.NoError(t, n.HCA.SetLink(1, false))
	wait(ci.EventPortDown)
	assert.Equal(t, ci.PortDown, state())
	assert.Equal(t, ci.PortDown, h2.State())
	require.NoError(t, n.HCA.SetLink(1, true))
	wait(ci.EventPortInit)
	require.NoError(t, f.Configure())
	wait(ci.EventPortActive)
	require.NoError(t, n.CA.Modify(1, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapCM,
		Capability: ci.PortCapCM}))
	wait(ci.EventPortTrap)
	assert.NotZero(t, h2.Info().CapabilityMask&uint32(ci.PortCapCM))
	require.NoError(t, n.CA.Modify(1, ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: 77}))
	wait(ci.EventSystemGUIDTrap)
	assert.EqualValues(t, 77, h2.NodeInfo().SystemGUID)
	i := h2.Info()
	i.State, i.PhysState, i.SubnetTimeout = 0, 0, i.SubnetTimeout^3
	set := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Set,
		TID: 1, Attribute: mad.AttrPortInfo}}
	i.Put(set.Data[:])
	var m ci.MAD
	set.Put(m[:])
	h1, err := f.Port("h1", 1)
	require.NoError(t, err)
	_ = h1.Send(&fabric.Datagram{DLID: ci.LID(i.LID), MAD: &m}) // no client takes the response
	require.Eventually(t, func() bool {
		a, err := n.CA.Query()
		return err == nil && a.Ports[0].SubnetTimeout == ci.TimeExp(i.SubnetTimeout)
	}, deadline, time.Millisecond, "a change without an event")
	require.NoError(t, s.Close())
	wait(ci.EventPortDown)
	assert.Equal(t, ci.PortDown, state())
}

// Datagrams for the agent of the port are executed in the process of the fabric. Without a fabric they have no
// response.
func TestSubnetMAD(t *testing.T) {
	f, s, path := serve(t, Config{})
	p := dial(t, path, "h4")
	defer func() { require.NoError(t, p.Close()) }()
	in := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get,
		TID: 77, Attribute: mad.AttrNodeInfo}}
	var m, out ci.MAD
	in.Put(m[:])
	p.SubnetMAD(&m, &out)
	assert.Zero(t, out, "before Start")
	require.NoError(t, linktest.Start(p, linktest.NewCollector()))
	p.SubnetMAD(&m, &out)
	var got mad.SMP
	got.Parse(out[:])
	assert.Equal(t, mad.GetResp, got.Method)
	assert.EqualValues(t, 77, got.TID)
	h4, err := f.Port("h4", 1)
	require.NoError(t, err)
	var i mad.NodeInfo
	i.Parse(got.Data[:])
	assert.Equal(t, h4.NodeInfo(), i)
	assert.True(t, p.Attr().HardwareAgents, "the fabric answers")
	require.NoError(t, s.Close())
	p.SubnetMAD(&m, &out)
	assert.Zero(t, out)
}

// Connections with anything but the protocol end, and those that say nothing end after a time. Others go on.
func TestHostile(t *testing.T) {
	_, s, path := serve(t, Config{Connections: 3, HelloTime: 50 * time.Millisecond})
	good := dial(t, path, "h1")
	defer func() { require.NoError(t, good.Close()) }()
	h := encode(hello{version, "h2", 0})
	for name, b := range map[string][]byte{
		"silence": nil, "text": []byte("GET / HTTP/1.1\r\n\r\n"), "a length of 0": make([]byte, 100),
		"too long":                        appendHeader(nil, typeHello, maxHello+1),
		"no JSON":                         appendMessage(nil, typeHello, []byte("hello")),
		"another type":                    appendMessage(nil, typeMAD, h),
		"another version":                 appendMessage(nil, typeHello, encode(hello{version + 1, "h2", 0})),
		"no such node":                    appendMessage(nil, typeHello, encode(hello{version, "nobody", 0})),
		"a switch":                        appendMessage(nil, typeHello, encode(hello{version, "s1-1", 1})),
		"then a type that does not exist": appendMessage(appendMessage(nil, typeHello, h), 99, nil),
		"then half a datagram":            appendMessage(appendMessage(nil, typeHello, h), typeMAD, make([]byte, 100)),
		"then a link of 2 bytes":          appendMessage(appendMessage(nil, typeHello, h), typeLink, make([]byte, 2)),
		"then a giant packet":             appendHeader(appendMessage(nil, typeHello, h), typePacket, maxPacket+1),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("unix", path)
			require.NoError(t, err)
			_, err = c.Write(b)
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(deadline)))
			_, err = io.Copy(io.Discard, c)
			if err != nil {
				require.ErrorContains(t, err, "connection reset")
			}
			require.NoError(t, c.Close())
			require.Eventually(t, func() bool { return s.Sessions() == 1 }, deadline, time.Millisecond)
		})
	}
	second := dial(t, path, "h3")
	third := dial(t, path, "h4")
	_, err := Dial(t.Context(), path, "h5", 0)
	require.Error(t, err, "one connection too many")
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Dial(ctx, path, "h6", 0)
	require.ErrorIs(t, err, context.Canceled)
}

// A process that does not read loses packets. The sender does not wait, and the memory is bounded.
func TestSlowProcess(t *testing.T) {
	for name, cfg := range map[string]Config{"of one connection": {}, "of all connections": {Waiting: 1 << 20}} {
		t.Run(name, func(t *testing.T) { testSlowProcess(t, cfg) })
	}
}

func testSlowProcess(t *testing.T, cfg Config) {
	f, s, path := serve(t, cfg)
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	_, err = c.Write(appendMessage(nil, typeHello, encode(hello{version, "h8", 0})))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.Sessions() == 1 }, deadline, time.Millisecond)
	h8, err := f.Port("h8", 0)
	require.NoError(t, err)
	local, err := f.CAPort("h1", 0)
	require.NoError(t, err)
	a := linktest.Open(t, ci.UD, 1<<12, local)
	openUD(t, a)
	lid, _ := h8.LID()
	av, err := a.PD.CreateAV(ci.AVAttr{Port: 1, DLID: lid})
	require.NoError(t, err)
	defer func() { require.NoError(t, av.Destroy()) }()
	const packets = 3 * maxWaiting / 2048
	for range packets / 8 {
		for range 8 {
			a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.SGE(0, 2048),
				To: ci.Dest{AV: av, QPN: 9, QKey: 7}})
		}
		a.Poll(8)
	}
	m := make(map[string]uint64)
	s.AddCounters(m)
	assert.NotZero(t, m["join_dropped"])
	assert.Less(t, m["join_dropped"], uint64(packets))
	limit := cmp.Or(cfg.Waiting, 2*maxWaiting)
	assert.LessOrEqual(t, s.budget.used.Load(), limit+(1<<17), "and a train")
	assert.NotZero(t, s.budget.used.Load())
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return s.Sessions() == 0 }, deadline, time.Millisecond)
	assert.Zero(t, s.budget.used.Load(), "what waited is released")
}

// A server whose limit is reached ends a connection that does not read messages without repetition.
func TestSlowReaderOfControl(t *testing.T) {
	c, other := net.Pipe()
	defer func() { require.NoError(t, other.Close()) }()
	b := &budget{max: 1000}
	s := newStream(c, b)
	message := make([]byte, 1001)
	for range 4 { // one may be with the writer
		s.put(typeChange, message)
	}
	<-s.done
	assert.Zero(t, b.used.Load())
	s.close()
	s.put(typeChange, message)
	assert.Zero(t, b.used.Load())
}

// Packets that are damaged are dropped, and the source of others is the port's, whatever they claim.
func TestForgedPackets(t *testing.T) {
	f, s, path := serve(t, Config{})
	collect := linktest.NewCollector()
	local, err := f.CAPort("h8", 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, local.Close()) }()
	require.NoError(t, linktest.Start(local, collect))
	p := dial(t, path, "h2")
	defer func() { require.NoError(t, p.Close()) }()
	require.NoError(t, linktest.Start(p, linktest.NewCollector()))
	r, err := p.Route(&ci.AVAttr{DLID: local.Attr().LID}, rvt.Flow{Datagram: true})
	require.NoError(t, err)
	pkt := rvt.Packet{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, N: 1, DestQP: 5, SrcQP: 6,
		PKey: 0xffff, Len: 4, MTU: 4, Payload: [][]byte{{1, 2, 3, 4}}, Route: r}
	frame := p.EncodeFrame(rvt.Sent, &pkt)
	require.NotNil(t, frame)
	damaged := slices.Clone(frame)
	damaged[30] ^= 1
	var w wire.LinkPacket
	require.NoError(t, wire.ParseLinkPacket(frame, &w))
	w.LRH.SLID = 0x123
	w.Packet.Payload = []byte{5, 6, 7, 8}
	for _, b := range [][]byte{damaged, frame[:20], nil, make([]byte, maxPacket),
		wire.AppendLinkPacket(nil, &w), frame} {
		p.stream.put(typePacket, b)
	}
	got := collect.Packets(t, 2)
	assert.Equal(t, [][]byte{{5, 6, 7, 8}}, got[0].Payload)
	assert.Equal(t, p.Attr().LID, got[0].Src.LID)
	assert.Equal(t, [][]byte{{1, 2, 3, 4}}, got[1].Payload)
	m := make(map[string]uint64)
	s.AddCounters(m)
	assert.EqualValues(t, 4, m["join_invalid"])
}

// Sending a train allocates nothing.
func TestAllocations(t *testing.T) {
	_, _, path := serve(t, Config{})
	p := dial(t, path, "h2")
	defer func() { require.NoError(t, p.Close()) }()
	r, err := p.Route(&ci.AVAttr{DLID: 1}, rvt.Flow{})
	require.NoError(t, err)
	c, other := net.Pipe() // which nobody reads: what waits is emptied below
	s := newStream(c, nil)
	defer func() { s.close(); require.NoError(t, other.Close()) }()
	pkts := []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 4, DestQP: 5, PKey: 0xffff,
		Len: 16000, MTU: 4096, Payload: [][]byte{make([]byte, 16000)}, Route: r}}
	send := func() {
		require.Zero(t, s.putPackets(pkts, sentAddress{}))
		s.mu.Lock()
		s.waiting = s.waiting[:0]
		s.mu.Unlock()
	}
	send()
	send()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, send), 1.0, "a header that escapes, no payload")
}

// peerVariable is the environment variable with the socket of the fabric, for TestProcess.
const peerVariable = "CIDDK_JOIN_SOCKET"

// TestProcess is the other process of TestTwoProcesses: it joins at h8, and connects with the node that it is told.
func TestProcess(t *testing.T) {
	path := os.Getenv(peerVariable)
	if path == "" {
		t.Skip("TestTwoProcesses runs this test in another process")
	}
	n := linktest.Open(t, ci.RC, 1<<19, dial(t, path, "h8"))
	linktest.ServeRemote(t, n, os.Stdin, os.Stdout)
}

// A reliable connection runs between two processes. When one of them is killed, its port is down.
func TestTwoProcesses(t *testing.T) {
	f, _, path := serve(t, Config{})
	n := linktest.Open(t, ci.RC, 1<<19, dial(t, path, "h1"))
	other := linktest.StartRemote(t, peerVariable+"="+path, "TestProcess")
	n.Connect(other.Remote().Node())
	other.Tell(t, n.Remote())
	other.Exercise(t, n)
	other.Kill()
	h8, err := f.Port("h8", 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return h8.State() == ci.PortDown }, deadline, time.Millisecond)
}

// Messages of any bytes from a process end its connection, or are executed.
func FuzzSession(f *testing.F) {
	f.Add(typeModify, append(make([]byte, numberLen), encode(modify{ci.PortFieldShutdown, ci.PortModify{}})...))
	f.Add(typeLink, []byte{1})
	f.Add(typeMAD, make([]byte, madLen))
	f.Add(typePacket, make([]byte, 64))
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, typ byte, b []byte) {
		fab, err := fabric.New(g, fabric.Config{Clock: clock.NewVirtual(0)})
		require.NoError(t, err)
		defer fab.Close()
		require.NoError(t, fab.Configure())
		ca, err := fab.CAPort("h1", 0)
		require.NoError(t, err)
		c, other := net.Pipe()
		defer func() { require.NoError(t, other.Close()) }()
		s := &Server{fabric: fab, cfg: Config{Log: slog.New(slog.DiscardHandler)}, left: make(map[place]bool)}
		k := &session{server: s, gone: make(chan struct{}), ca: ca, at: place{"h1", 1}, stream: newStream(c, nil),
			routes: newRoutes(ca)}
		require.NoError(t, k.start())
		for range 2 {
			if err := k.execute(typ, b); err != nil {
				require.ErrorIs(t, err, errMessage)
			}
		}
		k.stream.mu.Lock()
		require.LessOrEqual(t, len(k.stream.waiting), 4*maxControl)
		k.stream.mu.Unlock()
		k.leave()
	})
}

// Messages of any bytes from a fabric end the connection, or are taken.
func FuzzPort(f *testing.F) {
	f.Add(typeChange, encode(change{Event: ci.EventPortDown, Has: true}))
	f.Add(typeAnswer, make([]byte, madLen))
	f.Add(typePacket, make([]byte, 64))
	f.Fuzz(func(t *testing.T, typ byte, b []byte) {
		c, other := net.Pipe()
		defer func() { require.NoError(t, other.Close()) }()
		p := newPort(c, welcome{})
		require.NoError(t, linktest.Start(p, linktest.NewCollector()))
		require.NoError(t, c.Close())
		<-p.readEnd
		p.take(typ, b)
		require.NoError(t, p.Close())
	})
}
