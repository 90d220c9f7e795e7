package ibsim

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds what a test waits for.
const deadline = testenv.Patience

var names atomic.Int64

// serve serves a fabric of h1 to h4 behind two switches, whose ports are active.
func serve(t testing.TB, c Config) (*fabric.Fabric, *Server) {
	t.Helper()
	g, err := topology.FatTree{Down: []int{2, 2}, Up: []int{1, 1}}.Generate()
	require.NoError(t, err)
	f, err := fabric.New(g, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	require.NoError(t, f.Configure())
	c.Name = fmt.Sprintf("ciddk-ibsim-%d-%d", os.Getpid(), names.Add(1))
	s, err := Listen(f, c)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return f, s
}

// A program is a client as umad2sim's library makes one.
type program struct {
	t         testing.TB
	s         *Server
	process   uint32
	ctl, data *net.UnixConn
	number    uint32
}

var processes atomic.Uint32

// open binds the sockets of a program.
func open(t testing.TB, s *Server) *program {
	t.Helper()
	p := &program{t: t, s: s, process: processes.Add(1) + 1<<30}
	suffix := fmt.Sprint(p.process)
	var err error
	p.ctl, err = net.DialUnix("unixgram", address(s.cfg.Name, ":ctl"+suffix), address(s.cfg.Name, ":ctl"))
	require.NoError(t, err)
	t.Cleanup(p.end)
	require.NoError(t, p.ctl.SetDeadline(time.Now().Add(deadline)))
	p.data, err = net.ListenUnixgram("unixgram", address(s.cfg.Name, ":in"+suffix))
	require.NoError(t, err)
	require.NoError(t, p.data.SetDeadline(time.Now().Add(deadline)))
	return p
}

// end closes the sockets, as the end of the process does.
func (p *program) end() {
	_ = p.ctl.Close()
	_ = p.data.Close()
}

// call sends a control message, and returns the response.
func (p *program) call(typ uint32, data []byte) control {
	p.t.Helper()
	c := control{client: p.number, typ: typ, length: uint32(len(data))}
	copy(c.data[:], data)
	var b [controlLen]byte
	c.put(&b)
	_, err := p.ctl.Write(b[:])
	require.NoError(p.t, err)
	n, err := p.ctl.Read(b[:])
	require.NoError(p.t, err)
	c, ok := parseControl(b[:n])
	require.True(p.t, ok)
	return c
}

// connect attaches the program to a node. It returns false if the server refuses.
func (p *program) connect(node string, manager bool) bool {
	p.t.Helper()
	data := make([]byte, offNode+nodeNameLen)
	binary.NativeEndian.PutUint32(data[offProcess:], p.process)
	if manager {
		data[offManager] = 1
	}
	copy(data[offNode:], node)
	c := p.call(typeConnect, data)
	if c.typ != typeConnect {
		return false
	}
	p.number = binary.NativeEndian.Uint32(c.data[offProcess:])
	return true
}

// connected returns a program at a node.
func connected(t testing.TB, s *Server, node string, manager bool) *program {
	t.Helper()
	p := open(t, s)
	require.True(t, p.connect(node, manager))
	return p
}

func (p *program) send(m *message) {
	p.t.Helper()
	var b [dataLen]byte
	m.put(&b)
	p.write(b[:])
}

// write sends bytes to the socket of the program's messages.
func (p *program) write(b []byte) {
	p.t.Helper()
	_, err := p.data.WriteToUnix(b, address(p.s.cfg.Name, fmt.Sprint(":out", p.number)))
	require.NoError(p.t, err)
}

func (p *program) recv() message {
	p.t.Helper()
	var b [dataLen]byte
	n, err := p.data.Read(b[:])
	require.NoError(p.t, err)
	m, ok := parseMessage(b[:n])
	require.True(p.t, ok)
	return m
}

// recvThat returns the first message that satisfies a condition. Others, such as repeated traps, are dropped.
func (p *program) recvThat(is func(m *message) bool) message {
	p.t.Helper()
	for {
		if m := p.recv(); is(&m) {
			return m
		}
	}
}

// isTrapOf returns a condition for trap 144 of a port, with the bit of a subnet manager or without it.
func isTrapOf(lid uint16, manager bool) func(*message) bool {
	return func(m *message) bool {
		var n mad.Notice
		n.Parse(m.mad[64:128])
		var d mad.TrapCapability
		d.Parse(n.Details[:])
		return mad.Method(m.mad[offMethod]) == mad.Trap && n.Trap == mad.TrapCapabilityMask && n.IssuerLID == lid &&
			manager == (d.CapabilityMask&uint32(ci.PortCapSM) != 0)
	}
}

// hasStatus is a condition for messages that return with a status.
func hasStatus(m *message) bool { return m.status != 0 }

// request returns a message for a QP at a LID.
func request(lid uint16, qp uint32, h mad.Header) *message {
	m := &message{dlid: lid, dqp: qp, sqp: qp}
	h.BaseVersion = 1
	h.Put(m.mad[:])
	return m
}

const sampleTID = 0x0000_0007_1234_5678

var nodeInfo = mad.Header{Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get, TID: sampleTID,
	Attribute: mad.AttrNodeInfo}

// Control messages answer what the fabric has at the client's place, which a node's name, a port or a GUID selects.
func TestControl(t *testing.T) {
	f, s := serve(t, Config{})
	p := connected(t, s, "", false)
	c := p.call(typeGetNodeInfo, nil)
	var n mad.NodeInfo
	n.Parse(c.data[:])
	h1, err := f.Port("h1", 1)
	require.NoError(t, err)
	assert.Equal(t, h1.NodeInfo(), n)
	c = p.call(typeGetPortInfo, nil)
	var i mad.PortInfo
	i.Parse(c.data[:])
	assert.Equal(t, h1.Info(), i)
	c = p.call(typeGetPort, nil)
	assert.Equal(t, i.LID, binary.NativeEndian.Uint16(c.data[:]))
	assert.EqualValues(t, ci.PortActive, c.data[2])
	c = p.call(typeGetGUID, nil)
	assert.Equal(t, n.PortGUID, binary.BigEndian.Uint64(c.data[:]))
	c = p.call(typeGetGID, nil)
	assert.Equal(t, mad.GID(0xfe80<<48, n.PortGUID), [16]byte(c.data[:16]))
	c = p.call(typeGetVendor, nil)
	assert.Equal(t, n.VendorID, binary.NativeEndian.Uint32(c.data[:]))
	c = p.call(typeGetPKeys, nil)
	assert.Equal(t, []byte{0xff, 0xff, 0, 0}, c.data[:4])
	assert.EqualValues(t, typeError, p.call(99, nil).typ)
	assert.EqualValues(t, typeError, p.call(typeGetPortInfo, []byte{77}).typ)
	p.call(typeSetSM, []byte{1, 0, 0, 0})
	assert.NotZero(t, h1.Info().CapabilityMask&uint32(ci.PortCapSM))
	p.call(typeDisconnect, nil)
	assert.Zero(t, s.Clients())
	assert.Zero(t, h1.Info().CapabilityMask&uint32(ci.PortCapSM))
	assert.EqualValues(t, typeError, p.call(typeGetPort, nil).typ)

	for name, want := range map[string]string{"h3": "h3", "h2[1]": "h2", fmt.Sprintf("%#x", n.PortGUID): "h1",
		"s1-2": "s1-2"} {
		q := connected(t, s, name, false)
		s.mu.Lock()
		port := s.clients[q.number].port
		s.mu.Unlock()
		assert.Equal(t, want, port.Node(), name)
	}
	for _, name := range []string{"h9", "h1[2]", "0x1234", "h1[x]"} {
		assert.False(t, open(t, s).connect(name, false), name)
	}
}

// Requests are answered with the client's own transaction ID, whatever the server does with its upper bits.
func TestRequest(t *testing.T) {
	_, s := serve(t, Config{})
	p := connected(t, s, "h1", false)
	p.send(request(3, 0, nodeInfo))
	m := p.recv()
	assert.Zero(t, m.status)
	assert.EqualValues(t, sampleTID, tid(&m.mad)&(1<<48-1))
	assert.EqualValues(t, mad.GetResp, m.mad[offMethod])
	assert.EqualValues(t, 3, m.slid)
	assert.EqualValues(t, 1, m.dlid)
}

// requestOut waits until a request of the server's only waiting client has been sent.
func requestOut(t testing.TB, c *clock.Virtual) {
	t.Helper()
	require.Eventually(t, func() bool { return c.Pending() == 2 }, deadline, time.Millisecond, "watch and the request")
}

// A request that is discarded returns with a status, soon, and with its transaction ID.
func TestDiscarded(t *testing.T) {
	c := clock.NewVirtual(0)
	_, s := serve(t, Config{Timeout: time.Hour, Clock: c})
	p := connected(t, s, "h1", false)
	p.send(request(0x999, 0, nodeInfo))
	requestOut(t, c)
	require.Eventually(t, func() bool { // until the server has noted the discard, the timer is that of Timeout
		c.Advance(discardTime)
		return c.Pending() == 1
	}, deadline, time.Millisecond)
	assert.Less(t, c.Elapsed(), time.Hour)
	m := p.recv()
	assert.EqualValues(t, statusTimeout, m.status)
	assert.EqualValues(t, sampleTID, tid(&m.mad))
	assert.EqualValues(t, mad.Get, m.mad[offMethod])
}

// A request that another client does not answer returns after Config.Timeout, and a later answer is dropped.
func TestTimeout(t *testing.T) {
	c := clock.NewVirtual(0)
	_, s := serve(t, Config{Timeout: time.Second, Clock: c})
	manager, p := connected(t, s, "h4", true), connected(t, s, "h1", false)
	h := mad.Header{Class: mad.ClassSubnetAdmin, ClassVersion: 2, Method: mad.Get, TID: sampleTID, Attribute: 0x35}
	p.send(request(4, 1, h))
	asked := manager.recv()
	assert.EqualValues(t, 1, asked.slid)
	c.Advance(time.Second)
	m := p.recv()
	assert.EqualValues(t, statusTimeout, m.status)
	answer := asked
	answer.dlid, answer.slid = 1, 0
	answer.mad[offMethod] |= uint8(mad.ResponseMask)
	manager.send(&answer)
	m = p.recv() // late answers are for the client to judge
	assert.Zero(t, m.status)
	assert.Equal(t, 1, c.Pending(), "the timer of watch alone")
}

// Requests go to the clients that are for them: subnet administration and SMInfo to a manager, vendor classes to a
// client other than the sender, reports to one that is no manager.
func TestRequestsOfOthers(t *testing.T) {
	_, s := serve(t, Config{})
	manager, listener, p := connected(t, s, "h4", true), connected(t, s, "h4", false), connected(t, s, "h1", false)
	p.send(request(4, 0, mad.Header{Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get, TID: 1,
		Attribute: mad.AttrSMInfo}))
	m := manager.recv()
	assert.Equal(t, mad.AttrSMInfo, binary.BigEndian.Uint16(m.mad[16:]))
	p.send(request(4, 1, mad.Header{Class: mad.ClassSubnetAdmin, Method: mad.Report, TID: 2}))
	m = listener.recv()
	assert.EqualValues(t, mad.Report, m.mad[offMethod])
	p.send(request(4, 1, mad.Header{Class: mad.ClassVendor2First + 2, Method: mad.Get, TID: 3}))
	m = manager.recv()
	assert.EqualValues(t, mad.ClassVendor2First+2, m.mad[1])
	manager.send(request(4, 1, mad.Header{Class: mad.ClassVendor2First + 2, Method: mad.Get, TID: 4})) // to itself
	m = listener.recv()
	assert.EqualValues(t, 4, tid(&m.mad)&0xff)
	p.send(request(4, 1, mad.Header{Class: mad.ClassCM, ClassVersion: 2, Method: mad.Get, TID: 5}))
	m = p.recv() // no adapter at h4
	assert.EqualValues(t, statusTimeout, m.status)
}

// The manager of a port ends with its process: its role, its place at the port, and what others send to it. The subnet
// manager of the port gets trap 144.
func TestKilledManager(t *testing.T) {
	c := clock.NewVirtual(0)
	f, s := serve(t, Config{Clock: c})
	h4, err := f.Port("h4", 1)
	require.NoError(t, err)
	master := connected(t, s, "h1", true) // Configure made LID 1 the manager
	killed := connected(t, s, "h4", true)
	master.recvThat(isTrapOf(4, true))
	require.NotZero(t, h4.Info().CapabilityMask&uint32(ci.PortCapSM))
	killed.end()
	c.Advance(defaultWatch)
	master.recvThat(isTrapOf(4, false))
	assert.Zero(t, h4.Info().CapabilityMask&uint32(ci.PortCapSM))
	assert.Equal(t, 1, s.Clients())
	master.send(request(4, 0, mad.Header{Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get, TID: 1,
		Attribute: mad.AttrSMInfo}))
	requestOut(t, c)
	c.Advance(s.cfg.Timeout)
	m := master.recvThat(hasStatus)
	assert.Equal(t, mad.AttrSMInfo, binary.BigEndian.Uint16(m.mad[16:]))
	master.end()
	c.Advance(defaultWatch)
	require.Eventually(t, func() bool { return s.Clients() == 0 && c.Pending() == 0 }, deadline, time.Millisecond,
		"without clients, there is nothing to watch")
}

// A trap of a manager returns to it with a status, unless it is repressed: OpenSM sweeps only when none is outstanding.
func TestManagersTrap(t *testing.T) {
	c := clock.NewVirtual(0)
	_, s := serve(t, Config{Timeout: time.Second, Clock: c})
	master, standby := connected(t, s, "h1", true), connected(t, s, "h4", true)
	trap := request(1, 0, mad.Header{Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Trap, TID: sampleTID,
		Attribute: mad.AttrNotice})
	standby.send(trap)
	isIt := func(m *message) bool { return tid(&m.mad)&(1<<48-1) == sampleTID }
	m := master.recvThat(isIt)
	require.EqualValues(t, mad.Trap, m.mad[offMethod])
	m.dlid, m.slid = 4, 0
	m.mad[offMethod] = uint8(mad.TrapRepress)
	master.send(&m)
	m = standby.recv()
	assert.EqualValues(t, mad.TrapRepress, m.mad[offMethod])
	assert.EqualValues(t, sampleTID, tid(&m.mad)&(1<<48-1))
	standby.send(trap)
	master.recvThat(isIt)
	c.Advance(time.Second)
	m = standby.recvThat(hasStatus)
	assert.EqualValues(t, statusTimeout, m.status)
	assert.EqualValues(t, mad.Trap, m.mad[offMethod])
}

// The number of a client is not used again before its socket is closed, whose name has the number.
func TestNumberOfLeaving(t *testing.T) {
	_, s := serve(t, Config{Watch: time.Hour})
	connected(t, s, "h1", false)
	s.mu.Lock()
	k := s.clients[0]
	s.mu.Unlock()
	k.mu.Lock() // close waits for it
	ended := make(chan struct{})
	go func() { s.disconnect(k, "test"); close(ended) }()
	<-k.readEnd
	connected(t, s, "h1", false)
	s.mu.Lock()
	assert.Same(t, k, s.clients[0])
	assert.NotNil(t, s.clients[1])
	s.mu.Unlock()
	k.mu.Unlock()
	<-ended
	assert.Equal(t, 1, s.Clients())
}

// All numbers can be in use, and those of programs that ended without a word are free again.
func TestNumbers(t *testing.T) {
	_, s := serve(t, Config{Clients: 2})
	a := connected(t, s, "h1", true)
	connected(t, s, "h2", false)
	c := open(t, s)
	require.False(t, c.connect("h3", false))
	a.end()
	require.True(t, c.connect("h3", false))
	assert.Equal(t, a.number, c.number)
	assert.Equal(t, 2, s.Clients())
}

// Messages of any length, from any socket, with any number, are dropped without harm to others.
func TestHostile(t *testing.T) {
	_, s := serve(t, Config{})
	p := connected(t, s, "h1", false)
	evil := open(t, s)
	for _, n := range []int{0, 1, 79, 80, 81, 288, 5000} {
		_, _ = evil.ctl.Write(make([]byte, n))
	}
	evil.number = p.number // another one's
	assert.EqualValues(t, typeError, evil.call(typeDisconnect, nil).typ)
	evil.number = 1 << 31
	assert.EqualValues(t, typeError, evil.call(typeGetPort, nil).typ)
	data := make([]byte, offNode+nodeNameLen)
	binary.NativeEndian.PutUint32(data, p.process) // another process
	assert.EqualValues(t, typeError, evil.call(typeConnect, data).typ)
	_, err := net.DialUnix("unixgram", address(s.cfg.Name, ":evil"), address(s.cfg.Name, fmt.Sprint(":out", p.number)))
	require.ErrorIs(t, err, syscall.EPERM, "the socket is connected with the client's")
	var b [dataLen]byte
	for _, n := range []int{0, 1, 31, 32, 287, 289, 5000} {
		p.write(make([]byte, n))
	}
	short := request(3, 0, nodeInfo)
	short.put(&b)
	binary.BigEndian.PutUint64(b[24:], 3)
	p.write(b[:])
	p.send(request(2, 0, nodeInfo))
	m := p.recv()
	assert.EqualValues(t, 2, m.slid) // and nothing else came
}

// A second server needs a name of its own.
func TestListenErrors(t *testing.T) {
	f, s := serve(t, Config{})
	_, err := Listen(f, Config{Name: s.cfg.Name})
	require.ErrorContains(t, err, "another server has the name")
	_, err = Listen(f, Config{Clients: 1000})
	require.ErrorContains(t, err, "1000 clients: want 1 to 256")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
}

// A client that does not read loses messages, and holds up nobody.
func TestSlowClient(t *testing.T) {
	_, s := serve(t, Config{Timeout: time.Hour})
	manager, p := connected(t, s, "h4", true), connected(t, s, "h1", false)
	for i := range 2 * maxQueued {
		p.send(request(4, 0, mad.Header{Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Trap,
			TID: uint64(i), Attribute: mad.AttrNotice}))
	}
	p.send(request(3, 0, nodeInfo))
	m := p.recv()
	assert.EqualValues(t, 3, m.slid)
	s.mu.Lock()
	k := s.clients[manager.number]
	s.mu.Unlock()
	assert.NotZero(t, k.dropped.Load())
}

// Control messages of any bytes have a response or none.
func FuzzControl(f *testing.F) {
	_, s := serve(f, Config{})
	c := control{typ: typeGetPortInfo}
	var b [controlLen]byte
	c.put(&b)
	f.Add(b[:])
	f.Add([]byte{1, 2, 3})
	p := connected(f, s, "h1", false)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := parseControl(b)
		if !ok || c.typ == typeConnect || c.typ == typeDisconnect {
			return
		}
		c.client = p.number
		_ = s.control(&c, address(s.cfg.Name, ":ctl"+fmt.Sprint(p.process)))
		var out [controlLen]byte
		c.put(&out)
	})
}

// Data messages of any bytes are dropped or sent, and each request returns to its client once: with a response, or with
// a status. Each input has a fabric of its own, without goroutines and with time that stands still: the fuzzer looks
// for inputs with new coverage, which others must not change.
func FuzzMessage(f *testing.F) {
	var b [dataLen]byte
	request(3, 0, nodeInfo).put(&b)
	f.Add(b[:])
	request(1, 1, mad.Header{Class: mad.ClassPerformance, ClassVersion: 1, Method: mad.Get}).put(&b)
	f.Add(b[:])
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseMessage(b)
		if !ok {
			return
		}
		var out [dataLen]byte
		m.put(&out)
		again, ok := parseMessage(out[:])
		require.True(t, ok)
		require.Equal(t, m, again)
		now := clock.NewVirtual(0)
		fab, err := fabric.New(g, fabric.Config{Clock: now})
		require.NoError(t, err)
		defer fab.Close()
		require.NoError(t, fab.Configure())
		s := &Server{fabric: fab, cfg: Config{Clock: now}}
		s.cfg.setDefaults()
		p, err := fab.Port("h1", 1)
		require.NoError(t, err)
		k := unconnected(s, p)
		defer p.Attach(k)()
		k.send(&m)
		now.Advance(s.cfg.Timeout)
		require.Empty(t, k.pending)
		returned := 0
		for len(k.queue) > 0 {
			b := <-k.queue
			r, ok := parseMessage(b[:])
			require.True(t, ok)
			if tid(&r.mad)<<16 == tid(&m.mad)<<16 {
				returned++
			}
		}
		if hasResponse(&m.mad) {
			require.Equal(t, 1, returned)
		}
	})
}
