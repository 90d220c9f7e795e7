package umad

import (
	"encoding/binary"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/internal/rings"
	"ciddk/kproxy"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a daemon in this process, with two adapters on an InfiniBand link: umad0 and umad1.
type rig struct {
	t     testing.TB
	al    *accesslayer.AL
	hcas  []*reference.HCA
	core  *kproxy.Server
	front *FrontEnd
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, al: accesslayer.New(accesslayer.Config{PollInterval: -1})}
	link := direct.NewLink()
	for i := range 2 {
		port, err := direct.New(link, direct.Config{LID: ci.LID(1 + i)})
		require.NoError(t, err)
		h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
		require.NoError(t, err)
		require.NoError(t, r.al.Register(h))
		r.hcas = append(r.hcas, h)
	}
	m, err := mads.New(r.al, mads.Config{})
	require.NoError(t, err)
	r.core, err = kproxy.New(kproxy.Config{AL: r.al})
	require.NoError(t, err)
	verbs, err := uverbs.New(uverbs.Config{AL: r.al, Core: r.core, Providers: []uverbs.Provider{
		{Library: rings.LibraryName, Name: "rxe_ddk", ABI: 2, Driver: 14, Command: rings.VerbsCommand}}})
	require.NoError(t, err)
	r.front, err = New(Config{Core: r.core, MAD: m, Devices: verbs})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.core.Close())
		require.NoError(t, m.Close())
		require.NoError(t, r.al.Close())
		for _, h := range r.hcas {
			require.NoError(t, h.Close())
		}
	})
	return r
}

var self = kproxy.Peer{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid()}

// program is a program with an open device file.
type program struct {
	t     testing.TB
	f     *File
	wakes chan struct{} // what makes the descriptor readable
}

// open opens a file whose headers have the P_Key index.
func (r *rig) open(name string) *program {
	f, err := r.front.Open(deviceDir+"/"+name, self)
	require.NoError(r.t, err)
	p := &program{t: r.t, f: f.(*File), wakes: make(chan struct{}, 1000)}
	p.f.SetWake(func() { p.wakes <- struct{}{} })
	r.t.Cleanup(f.Close)
	_, errno := p.ioctl(ioctlEnablePKey, nil)
	require.Zero(r.t, errno)
	return p
}

// argument is the address of the structures of ioctls, and of reads.
const argument = 0x1000

// ioctl executes an ioctl as a carrier does, and returns its structure afterwards.
func (p *program) ioctl(request uint64, b []byte) ([]byte, syscall.Errno) {
	q := &devices.Request{IsIoctl: true, Ioctl: request, Operand: argument}
	r := p.f.Call(q)
	if len(r.NeedMemory) > 0 {
		require.Equal(p.t, []devices.Range{{Addr: argument, Size: uint64(len(b))}}, r.NeedMemory)
		q.Memory = []devices.Range{{Addr: argument, Size: uint64(len(b)), Data: b}}
		r = p.f.Call(q)
	}
	for _, s := range r.Stores {
		copy(b[s.Addr-argument:], s.Data)
	}
	return b, r.Errno
}

// encode encodes a registration as struct ib_user_mad_reg_req.
func (q *registration) encode() []byte {
	b := make([]byte, sizeRegister)
	ne.PutUint64(b[4:], q.mask[0])
	ne.PutUint64(b[12:], q.mask[1])
	copy(b[20:], []byte{uint8(q.qpn), uint8(q.class), q.version, q.oui[0], q.oui[1], q.oui[2], q.rmpp})
	return b
}

// register creates an agent.
func (p *program) register(q *registration) (uint32, syscall.Errno) {
	b, errno := p.ioctl(ioctlRegister, q.encode())
	return ne.Uint32(b), errno
}

// must is register for registrations that succeed.
func (p *program) must(q *registration) uint32 {
	id, errno := p.register(q)
	require.Zero(p.t, errno)
	return id
}

// write writes a datagram for an agent to a LID.
func (p *program) write(agent uint32, lid ci.LID, timeout uint32, b []byte) syscall.Errno {
	h := header{id: agent, timeout: timeout}
	h.to.AV.DLID, h.to.QPN = lid, 1
	if mad.Class(b[1]) == mad.ClassSubnetLID || mad.Class(b[1]) == mad.ClassSubnetDirected {
		h.to.QPN = 0
	}
	b = append(h.encode(sizeHeader), b...)
	r := p.f.Call(&devices.Request{Data: b})
	if r.Errno == 0 {
		require.EqualValues(p.t, len(b), r.Result)
	}
	return r.Errno
}

// read reads with a buffer of size bytes. It waits as a carrier does.
func (p *program) read(size uint64) (header, []byte, syscall.Errno) {
	for {
		r := p.f.Read(argument, size)
		if r.Quiet {
			<-p.wakes
		}
		if r.Wait {
			require.Equal(p.t, syscall.EAGAIN, r.Errno)
			select {
			case w := <-p.wakes:
				p.wakes <- w // the descriptor stays readable
			case <-time.After(time.Minute):
				require.Fail(p.t, "nothing to read")
			}
			continue
		}
		if len(r.Stores) == 0 {
			return header{}, nil, r.Errno
		}
		require.Len(p.t, r.Stores, 1)
		b := r.Stores[0].Data
		require.EqualValues(p.t, argument, r.Stores[0].Addr)
		if r.Errno == 0 {
			require.EqualValues(p.t, len(b), r.Result)
		}
		return parseHeader(b[:sizeHeader]), b[sizeHeader:], r.Errno
	}
}

// receive is read for a datagram that arrives.
func (p *program) receive() (header, []byte) {
	h, b, errno := p.read(devices.MaxRead)
	require.Zero(p.t, errno)
	return h, b
}

// datagram returns a datagram of size bytes.
func datagram(h mad.Header, size int) []byte {
	b := make([]byte, size)
	h.BaseVersion = mad.BaseVersion
	h.Put(b)
	for i := mad.HeaderLen; i < size; i++ {
		b[i] = byte(i)
	}
	return b
}

// smp returns a request of subnet management along a directed route without hops, or to a LID.
func smp(class mad.Class, m mad.Method, attribute uint16) []byte {
	b := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: class, ClassVersion: 1, Method: m, TID: 7,
		Attribute: attribute}
	h.Put(b)
	if class == mad.ClassSubnetDirected {
		binary.BigEndian.PutUint16(b[32:], 0xffff)
		binary.BigEndian.PutUint16(b[34:], 0xffff)
	}
	return b
}
