package nldev

import (
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/internal/rings"
	"ciddk/kproxy"
	"ciddk/link/sim"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a daemon in this process, with one adapter, and a socket.
type rig struct {
	t     testing.TB
	reads atomic.Int32 // of the counters
	core  *kproxy.Server
	front *FrontEnd
	s     devices.Dialog
	dev   uverbs.Device
}

func newRig(t testing.TB) *rig {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	require.NoError(t, al.Register(hca))
	core, err := kproxy.New(kproxy.Config{AL: al})
	require.NoError(t, err)
	r := &rig{t: t, core: core}
	u, err := uverbs.New(uverbs.Config{AL: al, Core: core, Providers: []uverbs.Provider{{Library: rings.LibraryName,
		Name: "any", ABI: 2, Driver: 14, Command: rings.VerbsCommand, BellOffset: rings.VerbsIndex}},
		Counters: func(ci.GUID) uverbs.Counters {
			r.reads.Add(1)
			return uverbs.Counters{Hardware: map[string]uint64{"b": 2, "a": 1 << 40}}
		}})
	require.NoError(t, err)
	n, err := New(Config{Devices: u, Core: core})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, core.Close())
		require.NoError(t, al.Close())
		require.NoError(t, hca.Close())
	})
	f, err := n.Open(Path, kproxy.Peer{})
	require.NoError(t, err)
	r.front, r.s, r.dev = n, f.(devices.Dialog), u.Devices()[0]
	return r
}

// datagram returns the replies to a datagram.
func (r *rig) datagram(b []byte) (replies [][]byte) {
	err := r.s.Datagram(b, func(reply []byte) error {
		replies = append(replies, reply)
		return nil
	})
	if err != nil { // in a fuzz target, r.t is not to be called without a failure
		r.t.Error(err)
	}
	return replies
}

// request returns a request.
func request(command, flags uint16, body attrs) []byte {
	h := header{seq: 7, port: 9}
	return h.reply(clientDev<<clientShift|command, flags, body)
}

// do executes a request that has replies with attributes, followed by a status or the end of a list if there are flags.
func (r *rig) do(command, flags uint16, body attrs) (list []map[uint16][]byte) {
	r.t.Helper()
	replies := r.datagram(request(command, flags, body))
	for i, b := range replies {
		h, rest, ok := next(b)
		require.True(r.t, ok)
		require.Empty(r.t, rest)
		assert.Equal(r.t, []uint32{7, 9}, []uint32{h.seq, h.port})
		if h.typ == typeDone || h.typ == typeError {
			require.Equal(r.t, len(replies)-1, i)
			require.Zero(r.t, ne.Uint32(h.body), "errno")
			continue
		}
		list = append(list, attributes(h.body))
	}
	return list
}

// errno returns the errno of a request.
func (r *rig) errno(command, flags uint16, body attrs) syscall.Errno {
	r.t.Helper()
	replies := r.datagram(request(command, flags, body))
	require.Len(r.t, replies, 1)
	h, _, ok := next(replies[0])
	require.True(r.t, ok)
	require.EqualValues(r.t, typeError, h.typ)
	return syscall.Errno(-int32(ne.Uint32(h.body)))
}

func index(n uint32) (a attrs) {
	a.u32(attrDevIndex, n)
	return a
}

func text(b []byte) string { return string(b[:max(0, len(b)-1)]) }

// TestDevices queries devices, ports and device files.
func TestDevices(t *testing.T) {
	r := newRig(t)
	for _, list := range [][]map[uint16][]byte{r.do(cmdGet, flagDump, nil), r.do(cmdGet, flagAck, index(0))} {
		require.Len(t, list, 1)
		assert.Equal(t, "any0", text(list[0][attrDevName]))
		assert.Equal(t, uint64(r.dev.GUID), ne.Uint64(list[0][attrNodeGUID]))
		assert.Equal(t, []byte{nodeCA}, list[0][attrNodeType])
		assert.Equal(t, "roce", text(list[0][attrProtocol]))
	}
	port := index(0)
	port.u32(attrPortIndex, 1)
	for _, list := range [][]map[uint16][]byte{r.do(cmdPortGet, flagDump, nil), r.do(cmdPortGet, 0, port)} {
		require.Len(t, list, 1)
		assert.Equal(t, []byte{4}, list[0][attrPortState], "active")
	}
	q := index(0)
	q.text(attrChardevType, "uverbs")
	list := r.do(cmdGetChardev, 0, q)
	require.Len(t, list, 1)
	assert.Equal(t, "uverbs0", text(list[0][attrChardevName]))
	assert.Equal(t, uint64(231<<8|192), ne.Uint64(list[0][attrChardev]))
	assert.Equal(t, uint32(14), ne.Uint32(list[0][attrDriver]))
	assert.Equal(t, []byte{1}, r.do(cmdSysGet, 0, nil)[0][attrCopyOnFork])
}

// TestErrors checks the errnos of requests that are wrong.
func TestErrors(t *testing.T) {
	r := newRig(t)
	port := index(0)
	port.u32(attrPortIndex, 2)
	var file attrs
	file.text(attrChardevType, "other")
	for _, x := range []struct {
		command uint16
		body    attrs
		want    syscall.Errno
	}{
		{cmdGet, nil, syscall.EINVAL}, {cmdGet, index(5), syscall.ENODEV}, {cmdPortGet, index(0), syscall.EINVAL},
		{cmdPortGet, port, syscall.EINVAL}, {cmdSet, index(0), syscall.EPERM}, {cmdNewLink, nil, syscall.EPERM},
		{100, nil, syscall.EOPNOTSUPP}, {cmdGetChardev, index(0), syscall.EINVAL},
		{cmdGetChardev, file, syscall.EOPNOTSUPP}, {cmdResQPGet, nil, syscall.EINVAL},
		{cmdGet, attrs{3, 0, 1, 0}, syscall.EINVAL}, {cmdGet, attrs{200, 0, 1, 0}, syscall.EINVAL},
	} {
		assert.Equal(t, x.want, r.errno(x.command, 0, x.body), "command %d", x.command)
	}
	for _, b := range [][]byte{nil, make([]byte, 15), make([]byte, 16)} {
		assert.Empty(t, r.datagram(b))
	}
	_, err := r.front.Open("/dev/infiniband/uverbs0", kproxy.Peer{})
	assert.Equal(t, syscall.ENOENT, err)
}

// TestManyRequests sends a datagram of several requests: one is executed when the replies to those before it were sent.
// Otherwise a datagram of 4096 requests would make the daemon hold 4096 lists of objects. A program that has closed its
// socket ends the execution.
func TestManyRequests(t *testing.T) {
	r := newRig(t)
	var b []byte
	for range 5 {
		b = append(b, request(cmdStatGet, flagDump, nil)...)
	}
	replies := 0
	err := r.s.Datagram(b, func([]byte) error {
		assert.EqualValues(t, replies/2+1, r.reads.Load(), "a list is two datagrams")
		if replies++; replies == 7 {
			return net.ErrClosed
		}
		return nil
	})
	require.ErrorIs(t, err, net.ErrClosed)
	assert.Equal(t, 7, replies)
	assert.EqualValues(t, 4, r.reads.Load())
}

// TestResources lists the objects of a client.
func TestResources(t *testing.T) {
	r := newRig(t)
	c, err := r.core.Open(kproxy.Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, "test")
	require.NoError(t, err)
	do := func(cmd schema.Command, body any) any {
		result, err := c.Do(&kproxy.Call{Command: cmd, Body: body})
		require.NoError(t, err)
		return result.Body
	}
	async, events, err := c.NewEventQueue(func(b []byte, _ *schema.Event) []byte { return b })
	require.NoError(t, err)
	defer events.Close()
	ca := do(schema.CmdOpenCA, &schema.OpenCA{GUID: r.dev.GUID, Async: async}).(*schema.Created)
	pd := do(schema.CmdAllocatePD, &schema.AllocatePD{CA: ca.Handle}).(*schema.Created)
	cq := do(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd.Handle, Size: 10}).(*schema.CreateCQReply)
	qp := do(schema.CmdCreateQP, &schema.CreateQP{PD: pd.Handle, SendCQ: cq.Handle, RecvCQ: cq.Handle, Async: async,
		Type: ci.RC, Caps: schema.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}).(*schema.CreateQPReply)

	summary := attributes(r.do(cmdResGet, flagDump, nil)[0][attrSummary])
	require.NotEmpty(t, summary[attrSummaryEntry])
	entry := func(command, list, typ uint16) map[uint16][]byte {
		t.Helper()
		replies := r.do(command, flagDump, index(0))
		require.Len(t, replies, 1)
		e := attributes(attributes(replies[0][list])[typ])
		assert.Equal(t, uint32(os.Getpid()), ne.Uint32(e[attrPID]))
		return e
	}
	e := entry(cmdResQPGet, qpTable.list, qpTable.entry)
	assert.Equal(t, uint32(qp.Num), ne.Uint32(e[attrLocalQPN]))
	assert.Equal(t, []byte{2}, e[attrQPType])
	assert.Equal(t, []byte{0}, e[attrQPState])
	e = entry(cmdResCQGet, cqTable.list, cqTable.entry)
	assert.GreaterOrEqual(t, ne.Uint32(e[attrCQE]), uint32(10))
	assert.Equal(t, uint64(1), ne.Uint64(e[attrUseCount]), "the QP")
	entry(cmdResPDGet, pdTable.list, pdTable.entry)
	entry(cmdResCTXGet, contextTable.list, contextTable.entry)
	assert.Empty(t, r.do(cmdResMRGet, flagDump, index(0)))
	require.NoError(t, c.Close())
	assert.Empty(t, r.do(cmdResQPGet, flagDump, index(0)))
}

// FuzzDatagram executes datagrams of a program that sends anything.
func FuzzDatagram(f *testing.F) {
	port := index(0)
	port.u32(attrPortIndex, 1)
	f.Add(request(cmdGet, flagDump, nil))
	f.Add(append(request(cmdPortGet, flagAck, port), request(cmdResQPGet, flagDump, index(0))...))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range r.datagram(b) {
			h, rest, ok := next(m)
			require.True(t, ok)
			require.Empty(t, rest)
			require.EqualValues(t, len(m), h.length)
		}
	})
}
