package uverbs

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/hca/reference"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/rings"
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
	core  *kproxy.Server
	front *FrontEnd
}

var softRoCE = []Provider{{Library: rings.LibraryName, Name: "rxe_ddk", ABI: 2, Driver: 14, Command: rings.VerbsCommand,
	BellOffset: rings.VerbsIndex}}

func newRig(t testing.TB) *rig { return newRigOf(t, kproxy.Config{}) }

// newRigOf returns a rig with a session core.
func newRigOf(t testing.TB, core kproxy.Config) *rig {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	r := &rig{t: t, al: accesslayer.New(accesslayer.Config{PollInterval: -1})}
	r.hca, err = reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	require.NoError(t, r.al.Register(r.hca))
	core.AL = r.al
	r.core, err = kproxy.New(core)
	require.NoError(t, err)
	r.front, err = New(Config{AL: r.al, Core: r.core, Providers: softRoCE})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.core.Close())
		require.NoError(t, r.al.Close())
		require.NoError(t, r.hca.Close())
	})
	return r
}

// program is a program with an open device file. It is this process.
type program struct {
	t     testing.TB
	f     devices.File
	files map[uint64]*os.File // by address
	mem   map[uint64][]byte   // what was stored
	bell  *devices.Bell

	memory *os.File // to map
}

func (r *rig) open() *program {
	f, err := r.front.Open("/dev/infiniband/uverbs0", kproxy.Peer{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid()})
	require.NoError(r.t, err)
	p := &program{t: r.t, f: f, files: map[uint64]*os.File{}, mem: map[uint64][]byte{}}
	r.t.Cleanup(f.Close)
	return p
}

// replyAddr is the address of replies.
const replyAddr = 0x1000

// write executes a command of bytes.
func (p *program) write(b []byte) *devices.Reply {
	req := &devices.Request{Data: b}
	r := p.f.Call(req)
	if r.NeedFile {
		f := p.files[uint64(r.Number)]
		if f == nil { // as carriers do
			return devices.Fail(syscall.EBADF)
		}
		req.Number, req.File = r.Number, f
		r = p.f.Call(req)
		require.False(p.t, r.NeedFile)
	}
	if r.Memory != nil {
		p.memory = r.Memory
	}
	for _, s := range r.Stores {
		p.mem[s.Addr] = s.Data
	}
	for _, d := range r.Files {
		p.files[d.Addr] = d.File
		p.t.Cleanup(func() { d.File.Close() })
	}
	p.bell = r.Bell
	return r
}

// encode returns a command of the original form, with room for a reply of n bytes.
func encode(command uint32, request any, data []byte, n int) []byte {
	b, err := binary.Append(make([]byte, headerSize), ne, request)
	if err != nil {
		panic(err)
	}
	b = append(b, data...)
	ne.PutUint32(b, command)
	ne.PutUint16(b[4:], uint16(len(b)/4))
	ne.PutUint16(b[6:], uint16(n/4))
	return b
}

// do executes a command, and decodes the reply. It returns the driver data.
func (p *program) do(command uint32, request, reply any, data ...byte) ([]byte, syscall.Errno) {
	n := 0
	if reply != nil {
		n = binary.Size(reply)
	}
	delete(p.mem, replyAddr)
	r := p.write(encode(command, request, data, n+64))
	if r.Errno != 0 || reply == nil {
		return nil, r.Errno
	}
	stored := p.mem[replyAddr]
	require.GreaterOrEqual(p.t, len(stored), n)
	_, err := binary.Decode(stored[:n], ne, reply)
	require.NoError(p.t, err)
	return stored[n:], 0
}

// must is do for commands that succeed.
func (p *program) must(command uint32, request, reply any, data ...byte) []byte {
	p.t.Helper()
	out, errno := p.do(command, request, reply, data...)
	require.Zero(p.t, errno)
	return out
}

// context returns a program that has a context.
func (r *rig) context() *program {
	p := r.open()
	var c getContextResp
	p.must(cmdGetContext, getContext{replyAddr}, &c)
	return p
}

// live returns the driver's objects, except for those of the access layer.
func (r *rig) live() map[string]int {
	list := map[string]int{}
	for k, n := range r.hca.Live() {
		if n > 0 && k != "ca" {
			list[k] = n
		}
	}
	return list
}
