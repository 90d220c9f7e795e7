package ucm

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	abi "ciddk/internal/ucmabi"
	"ciddk/kproxy"
	"ciddk/link/sim"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a daemon in this process, with one adapter.
type rig struct {
	t     testing.TB
	al    *accesslayer.AL
	hca   *reference.HCA
	guid  ci.GUID
	core  *kproxy.Server
	front *FrontEnd
}

func newRig(t testing.TB) *rig { return newRigAt(t, "10.0.0.1") }

// newRigAt returns a rig whose adapter has an address.
func newRigAt(t testing.TB, address string) *rig {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr(address)})
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	r := &rig{t: t, al: al}
	r.hca, err = reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	require.NoError(t, al.Register(r.hca))
	r.guid = al.Adapters()[0].GUID()
	m, err := rdmacm.Open(al, rdmacm.OpenConfig{})
	require.NoError(t, err)
	r.core, err = kproxy.New(kproxy.Config{AL: al})
	require.NoError(t, err)
	r.front, err = New(Config{Core: r.core, Manager: m.IDs()})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.core.Close())
		require.NoError(t, m.Close())
		require.NoError(t, al.Close())
		require.NoError(t, r.hca.Close())
	})
	return r
}

var self = kproxy.Peer{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid()}

// newQP creates a QP of the same user and returns its number.
func (r *rig) newQP(typ ci.QPType) uint32 {
	s, err := r.core.Open(self, 64, "verbs")
	require.NoError(r.t, err)
	do := func(cmd schema.Command, body any) any {
		result, err := s.Do(&kproxy.Call{Command: cmd, Body: body})
		require.NoError(r.t, err)
		return result.Body
	}
	events, file, err := s.NewEventQueue(func(b []byte, _ *schema.Event) []byte { return b })
	require.NoError(r.t, err)
	require.NoError(r.t, file.Close())
	ca := do(schema.CmdOpenCA, &schema.OpenCA{GUID: r.guid, Async: events}).(*schema.Created).Handle
	pd := do(schema.CmdAllocatePD, &schema.AllocatePD{CA: ca}).(*schema.Created).Handle
	cq := do(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: 10}).(*schema.CreateCQReply).Handle
	return uint32(do(schema.CmdCreateQP, &schema.CreateQP{PD: pd, SendCQ: cq, RecvCQ: cq, Type: typ,
		Caps: schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}).(*schema.CreateQPReply).Num)
}

// services returns the texts of all clients' listeners and connections.
func (r *rig) services() (list []string) {
	for _, c := range r.core.Status().Clients {
		list = append(list, c.Services...)
	}
	return list
}

// program is a program with an open device file.
type program struct {
	t     testing.TB
	f     *File
	wakes chan struct{} // what makes the descriptor readable
}

func (r *rig) open() *program {
	f, err := r.front.Open(deviceFile, self)
	require.NoError(r.t, err)
	p := &program{t: r.t, f: f.(*File), wakes: make(chan struct{}, 1000)}
	p.f.SetWake(func() { p.wakes <- struct{}{} })
	r.t.Cleanup(f.Close)
	return p
}

// replyAddr is the address of replies.
const replyAddr = 0x1000

// encode returns a command with room for a reply of n bytes.
func encode(command uint32, request any, n int) []byte {
	b, err := binary.Append(make([]byte, abi.HeaderSize), ne, request)
	if err != nil {
		panic(err)
	}
	ne.PutUint32(b, command)
	ne.PutUint16(b[4:], uint16(len(b)-abi.HeaderSize))
	ne.PutUint16(b[6:], uint16(n))
	return b
}

// call executes a command as a carrier does.
func (p *program) call(r *devices.Request) *devices.Reply {
	reply := p.f.Call(r)
	if reply.Quiet {
		<-p.wakes
	}
	return reply
}

// do executes a command and decodes the reply.
func (p *program) do(command uint32, request, reply any) syscall.Errno {
	p.t.Helper()
	n := 0
	if reply != nil {
		n = binary.Size(reply)
	}
	r := p.call(&devices.Request{Data: encode(command, request, n)})
	if r.Errno != 0 || reply == nil {
		require.Empty(p.t, r.Stores)
		return r.Errno
	}
	require.Len(p.t, r.Stores, 1)
	require.EqualValues(p.t, replyAddr, r.Stores[0].Addr)
	require.LessOrEqual(p.t, len(r.Stores[0].Data), n)
	_, err := binary.Decode(append(r.Stores[0].Data, make([]byte, n)...), ne, reply)
	require.NoError(p.t, err)
	return 0
}

// must is do for commands that succeed.
func (p *program) must(command uint32, request, reply any) {
	p.t.Helper()
	require.Zero(p.t, p.do(command, request, reply))
}

// create creates an ID, which is uid in events.
func (p *program) create(space uint16, uid uint64) uint32 {
	var r abi.IDResp
	p.must(abi.CmdCreateID, abi.CreateID{UID: uid, Response: replyAddr, PS: space}, &r)
	return r.ID
}

// next waits until the descriptor is readable and takes an event of a type.
func (p *program) next(event uint32) (e abi.EventResp) {
	p.t.Helper()
	for {
		switch errno := p.do(abi.CmdGetEvent, abi.GetEvent{Response: replyAddr}, &e); errno {
		case 0:
			require.Equal(p.t, event, e.Event, "%+v", e)
			return e
		default:
			require.Equal(p.t, syscall.EAGAIN, errno)
		}
		select {
		case w := <-p.wakes:
			p.wakes <- w
		case <-time.After(time.Minute):
			require.FailNow(p.t, "no event", "want %d", event)
		}
	}
}

// at returns 10.0.0.1 and a port.
func at(port uint16) (a abi.SockaddrIn6) {
	abi.PutAddress(a[:], netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port), abi.FamilyIPv4)
	return a
}

// resolved returns an ID with a route to a port.
func (p *program) resolved(space uint16, port uint16) uint32 {
	x := p.create(space, 5)
	p.must(abi.CmdResolveIP, abi.ResolveIP{Dst: at(port), ID: x, TimeoutMS: 10_000}, nil)
	p.next(abi.EventAddrResolved)
	p.must(abi.CmdResolveRoute, abi.ResolveRoute{ID: x, TimeoutMS: 10_000}, nil)
	p.next(abi.EventRouteResolved)
	return x
}
