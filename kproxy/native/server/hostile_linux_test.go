package server_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// TestHandlesOfAnotherClient uses every handle of one client in another one. None is accepted, and the owner is not
// affected.
func TestHandlesOfAnotherClient(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	owner, thief := r.client(), r.client()
	o := owner.create()
	for _, h := range []schema.Handle{o.queue, o.ca, o.pd, o.cq, o.qp} {
		require.ErrorIs(t, thief.do(schema.CmdDestroy, &schema.Object{Handle: h}, &schema.DestroyReply{}),
			h.Kind().Invalid())
	}
	mine := thief.create()
	require.ErrorIs(t, thief.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: forge(o.pd, mine.pd), Size: 1},
		&schema.CreateCQReply{}),
		ci.InvalidPDHandle)
	require.NoError(t, owner.do(schema.CmdQueryQP, &schema.QP{QP: o.qp}, &schema.QPAttr{}))
	require.NoError(t, thief.do(schema.CmdQueryQP, &schema.QP{QP: mine.qp}, &schema.QPAttr{}))
}

// forge returns a handle of the same kind that is not b.
func forge(a, b schema.Handle) schema.Handle {
	if a == b {
		return schema.MakeHandle(a.Kind(), a.Generation()+1, a.Index())
	}
	return a
}

// TestStaleHandles uses handles of objects that were destroyed, after their places were used again.
func TestStaleHandles(t *testing.T) {
	c := newRig(t, kproxy.Config{}).client()
	o := c.create()
	require.NoError(t, c.do(schema.CmdDestroy, &schema.Object{Handle: o.qp}, &schema.DestroyReply{}))
	var again schema.CreateQPReply
	require.NoError(t, c.do(schema.CmdCreateQP, &schema.CreateQP{PD: o.pd, SendCQ: o.cq, RecvCQ: o.cq,
		Caps: schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}, &again))
	assert.Equal(t, o.qp.Index(), again.Handle.Index())
	assert.NotEqual(t, o.qp, again.Handle)
	require.ErrorIs(t, c.do(schema.CmdQueryQP, &schema.QP{QP: o.qp}, &schema.QPAttr{}), ci.InvalidQPHandle)
	require.ErrorIs(t, c.do(schema.CmdDestroy, &schema.Object{Handle: o.qp}, &schema.DestroyReply{}),
		ci.InvalidQPHandle)
	require.NoError(t, c.do(schema.CmdQueryQP, &schema.QP{QP: again.Handle}, &schema.QPAttr{}))
}

// TestGarbage sends packets that are not messages, and messages whose bodies are random. The daemon ends the first kind
// of connection, rejects the second kind of message, and continues to serve others.
func TestGarbage(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	honest := r.client()
	honest.create()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, m := range [][]byte{{1}, make([]byte, 15), make([]byte, 16), make([]byte, 64)} {
		c := r.client()
		require.NoError(t, c.c.Send(m, nil))
		_, _, err := c.recv()
		require.Error(t, err, "%d bytes", len(m))
	}
	c := r.client()
	c.create()
	for range 3000 {
		body := make([]byte, rnd.IntN(24)*8)
		for i := range body {
			if rnd.IntN(3) == 0 {
				body[i] = byte(rnd.Uint32())
			}
		}
		c.send(schema.CmdHello+schema.Command(rnd.IntN(int(schema.NumCommands)-1)), body)
		h, _, err := c.recv()
		require.NoError(t, err)
		require.Equal(t, c.next, h.ID)
	}
	require.NoError(t, honest.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}))
	c.c.Close()
	honest.c.Close()
	r.gone()
}

// TestNoHello begins with another request.
func TestNoHello(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	c := r.raw()
	c.send(schema.CmdListHCAs, nil)
	_, _, err := c.recv()
	require.Error(t, err)
	c = r.raw()
	err = c.do(schema.CmdHello, &schema.Hello{Version: schema.Version + 1, PointerBits: 64}, &schema.HelloReply{})
	require.ErrorIs(t, err, ci.Unsupported)
	require.ErrorContains(t, err, fmt.Sprintf("the daemon has version %d", schema.Version))
	assert.Empty(t, r.core.Sessions())
}

// TestStopsReading floods the daemon with requests and never reads a reply. Another client is served meanwhile, and
// closing the connection releases everything.
func TestStopsReading(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	flood := r.client()
	o := flood.create()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m := native.Start(nil)
		m = native.Append(m, &schema.CA{CA: o.ca})
		_ = native.Finish(m, native.Header{Command: schema.CmdQueryCA, ID: 1})
		for flood.c.Send(m, nil) == nil { // it blocks when the daemon does not read any more
		}
	}()
	honest := r.client()
	honest.create()
	for range 200 {
		require.NoError(t, honest.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}))
	}
	honest.c.Close()
	flood.c.Close()
	<-done
	r.gone()
}

// TestQuota creates objects until the quota is used up. Destroying one makes room for one.
func TestQuota(t *testing.T) {
	c := newRig(t, kproxy.Config{Quota: kproxy.Quota{PDs: 3, QueueBytes: 1 << 16, MemoryBytes: 4096}}).client()
	o := c.create()
	var created schema.Created
	var list []schema.Handle
	for range 2 {
		require.NoError(t, c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: o.ca}, &created))
		list = append(list, created.Handle)
	}
	require.ErrorIs(t, c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: o.ca}, &created), ci.InsufficientResources)
	require.NoError(t, c.do(schema.CmdDestroy, &schema.Object{Handle: list[0]}, &schema.DestroyReply{}))
	require.NoError(t, c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: o.ca}, &created))

	cq := &schema.CreateCQ{PD: o.pd, Size: 2000}
	require.ErrorIs(t, c.do(schema.CmdCreateCQ, cq, &schema.CreateCQReply{}), ci.InsufficientResources)
	var attr schema.CAAttr
	require.NoError(t, c.do(schema.CmdQueryCA, &schema.CA{CA: o.ca}, &attr))
	assert.EqualValues(t, 3, attr.MaxPDs)
	b := make([]byte, 8192)
	mr := &schema.RegisterMR{PD: o.pd, Memory: schema.Memory{Addr: ci.Bytes(b).Addr(), Length: 8192}}
	require.ErrorIs(t, c.do(schema.CmdRegisterMR, mr, &schema.RegionReply{}), ci.InsufficientResources)
	mr.Memory.Length = 4096
	require.NoError(t, c.do(schema.CmdRegisterMR, mr, &schema.RegionReply{}))
}

// TestSharedMemory registers descriptors that the daemon must not map.
func TestSharedMemory(t *testing.T) {
	c := newRig(t, kproxy.Config{}).client()
	o := c.create()
	const seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	for _, x := range []struct {
		name  string
		flags int
		seals int
		size  int64
		want  ci.Status // 0: accepted
	}{
		{"sealed", unix.MFD_ALLOW_SEALING, seals, 8192, 0},
		{"not sealed", unix.MFD_ALLOW_SEALING, 0, 8192, ci.InvalidPermission},
		{"sealed against growing only", unix.MFD_ALLOW_SEALING, unix.F_SEAL_GROW, 8192, ci.InvalidPermission},
		{"too short", unix.MFD_ALLOW_SEALING, seals, 4096, ci.InvalidPermission},
		{"sealed against writing", unix.MFD_ALLOW_SEALING, seals | unix.F_SEAL_WRITE, 8192, ci.InvalidPermission},
		{"huge pages", unix.MFD_ALLOW_SEALING | unix.MFD_HUGETLB, seals, 2 << 20, ci.InvalidPermission},
	} {
		fd, err := unix.MemfdCreate("test", x.flags)
		if x.flags&unix.MFD_HUGETLB != 0 && err != nil {
			t.Log("no huge pages: ", err)
			continue
		}
		require.NoError(t, err)
		f := os.NewFile(uintptr(fd), x.name)
		require.NoError(t, f.Truncate(x.size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, x.seals)
		require.NoError(t, err)
		err = c.register(o.pd, f)
		f.Close()
		if x.want == 0 {
			require.NoError(t, err, x.name)
		} else {
			require.ErrorIs(t, err, x.want, x.name)
		}
	}
	f, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, c.register(o.pd, f), ci.InvalidPermission)
}

// register registers 8192 bytes of a descriptor.
func (c *client) register(pd schema.Handle, f *os.File) error {
	m := native.Append(native.Start(nil), &schema.RegisterMR{PD: pd,
		Memory: schema.Memory{Addr: 1 << 20, Length: 8192, Access: ci.LocalWrite, Shared: true}})
	c.next++
	require.NoError(c.r.t, native.Finish(m, native.Header{Command: schema.CmdRegisterMR, ID: c.next}))
	require.NoError(c.r.t, c.c.Send(m, []*os.File{f}))
	return c.reply(&schema.RegionReply{})
}

// TestMemoryNotMapped registers addresses that the process does not have.
func TestMemoryNotMapped(t *testing.T) {
	c := newRig(t, kproxy.Config{}).client()
	o := c.create()
	for _, m := range []schema.Memory{
		{Addr: 4096, Length: 10},
		{Addr: 1<<63 - 5, Length: 10},
		{Addr: ^uint64(0), Length: 2},
		{Addr: ci.Bytes(make([]byte, 1)).Addr(), Length: 1 << 45},
	} {
		err := c.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: o.pd, Memory: m}, &schema.RegionReply{})
		assert.Contains(t, []ci.Status{ci.InvalidPermission, ci.InvalidParameter, ci.InsufficientResources},
			ci.StatusOf(err))
	}
}

// TestTooManyConnections opens connections that never send Hello. Beyond the limit, the oldest of them are closed.
// Clients that were connected before are served, and further ones need not wait.
func TestTooManyConnections(t *testing.T) {
	r := newRig(t, kproxy.Config{MaxClients: 2})
	honest, oldest := r.client(), r.raw()
	for range 80 {
		r.raw()
	}
	_, _, err := oldest.recv()
	require.Error(t, err)
	for _, c := range []*client{honest, r.client()} {
		require.NoError(t, c.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}))
	}
}

// TestTooManyClients connects more clients than the limit.
func TestTooManyClients(t *testing.T) {
	r := newRig(t, kproxy.Config{MaxClients: 2, MaxClientsPerUser: 1})
	first := r.client()
	refused := r.raw()
	hello := &schema.Hello{Version: schema.Version, PointerBits: 64}
	require.ErrorIs(t, refused.do(schema.CmdHello, hello, &schema.HelloReply{}), ci.InsufficientResources)
	first.c.Close()
	r.gone()
	r.client()
}
