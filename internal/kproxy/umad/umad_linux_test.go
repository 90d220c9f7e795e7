package umad

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/kproxy"
	"ciddk/mad"
)

const (
	bitGet  = 1 << mad.Get
	bitSet  = 1 << mad.Set
	bitTrap = 1<<mad.Trap | 1<<mad.TrapRepress

	vendor = mad.Class(0x09)
	long   = mad.Class(0x31) // has RMPP
)

func methodBits(m uint64) [2]uint64 { return [2]uint64{m} }

// The tree has the files that libibumad looks for.
func TestTree(t *testing.T) {
	r := newRig(t)
	tree := map[string]string{}
	for _, e := range r.front.Tree() {
		tree[e.Path] = string(e.Data)
	}
	want := map[string]string{
		sysfsDir + "/abi_version": "5\n",
		"/dev/infiniband/umad0":   "231:0\n", "/dev/infiniband/issm0": "231:64\n",
		"/dev/infiniband/umad1": "231:1\n", "/dev/infiniband/issm1": "231:65\n",
	}
	for i, adapter := range []string{"rxe_ddk0\n", "rxe_ddk1\n"} {
		for format, minor := range map[string]int{"umad%d": i, "issm%d": 64 + i} {
			name := fmt.Sprintf(format, i)
			dir, entries := devices.ClassDevice(devices.FunctionDir(i), "infiniband_mad", name,
				devices.DeviceFile(231, minor, name))
			for _, e := range entries {
				want[e.Path] = string(e.Data)
			}
			want[dir+"/dev"] = fmt.Sprintf("231:%d\n", minor)
			want[dir+"/ibdev"], want[dir+"/port"] = adapter, "1\n"
		}
	}
	assert.Equal(t, want, tree)
}

// Only root and the daemon's user open the files.
func TestAccess(t *testing.T) {
	r := newRig(t)
	stranger := kproxy.Peer{PID: self.PID, UID: self.UID + 1, GID: self.GID}
	for _, name := range []string{"/dev/infiniband/umad0", "/dev/infiniband/issm0"} {
		_, err := r.front.Open(name, stranger)
		assert.ErrorIs(t, err, syscall.EACCES, name)
	}
	for _, name := range []string{"/dev/infiniband/umad2", "/dev/infiniband/umad", "/dev/infiniband/uverbs0"} {
		_, err := r.front.Open(name, self)
		assert.ErrorIs(t, err, syscall.ENOENT, name)
	}
	assert.Empty(t, r.core.Sessions())
}

// Registrations fail with the errno of Linux.
func TestRegister(t *testing.T) {
	r := newRig(t)
	p := r.open("umad0")
	for name, c := range map[string]struct {
		q     registration
		errno syscall.Errno
	}{
		"QP 2":                  {registration{qpn: 2}, syscall.EINVAL},
		"RMPP version":          {registration{qpn: 1, class: long, oui: [3]byte{1}, rmpp: 2}, syscall.EINVAL},
		"version":               {registration{qpn: 1, class: vendor, version: 0x83}, syscall.EINVAL},
		"class":                 {registration{qpn: 1, class: 0x50}, syscall.EINVAL},
		"no OUI":                {registration{qpn: 1, class: long}, syscall.EINVAL},
		"RMPP of another class": {registration{qpn: 1, class: vendor, rmpp: 1}, syscall.EINVAL},
		"class on QP1":          {registration{qpn: 1, class: mad.ClassSubnetDirected}, syscall.EINVAL},
		"class on QP0":          {registration{class: vendor}, syscall.EINVAL},
		"valid":                 {registration{qpn: 1, class: vendor, version: 1, mask: methodBits(bitGet)}, 0},
	} {
		_, errno := p.register(&c.q)
		assert.Equal(t, c.errno, errno, name)
	}
	q := &registration{qpn: 1, class: vendor, version: 1, mask: methodBits(bitGet | bitSet)}
	_, errno := p.register(q)
	assert.Equal(t, syscall.EINVAL, errno, "another agent of the file has the method")
	other := r.open("umad0")
	_, errno = other.register(q)
	assert.Equal(t, syscall.EINVAL, errno, "an agent of another file has the method")
	_, errno = p.ioctl(ioctlUnregister, ne.AppendUint32(nil, 0))
	assert.Zero(t, errno)
	other.must(q)
	for _, id := range []uint32{0, 1, maxAgents} {
		_, errno = p.ioctl(ioctlUnregister, ne.AppendUint32(nil, id))
		assert.Equal(t, syscall.EINVAL, errno, id)
	}
	_, errno = p.ioctl(ioctlEnablePKey, nil)
	assert.Equal(t, syscall.EINVAL, errno, "there was an agent")
	_, errno = p.ioctl(0xc0181b01, make([]byte, 24))
	assert.Equal(t, syscall.ENOTTY, errno)

	for range maxAgents {
		p.must(&registration{qpn: 1})
	}
	_, errno = p.register(&registration{qpn: 1})
	assert.Equal(t, syscall.ENOMEM, errno)
}

// The second form of registrations enables the P_Key index, and supports no flags.
func TestRegister2(t *testing.T) {
	r := newRig(t)
	f, err := r.front.Open("/dev/infiniband/umad0", self)
	require.NoError(t, err)
	p := &program{t: t, f: f.(*File)}
	t.Cleanup(f.Close)
	b := make([]byte, sizeRegister2)
	ne.PutUint32(b[4:], 1)
	b[8], b[9] = uint8(long), 1
	ne.PutUint32(b[offFlags:], 1)
	ne.PutUint64(b[16:], bitGet)
	ne.PutUint32(b[32:], 0x000102)
	after, errno := p.ioctl(ioctlRegister2, slices.Clone(b))
	assert.Equal(t, syscall.EINVAL, errno)
	assert.Zero(t, ne.Uint32(after[offFlags:]))
	ne.PutUint32(b[offFlags:], 0)
	ne.PutUint32(b[32:], 1<<24)
	_, errno = p.ioctl(ioctlRegister2, slices.Clone(b))
	assert.Equal(t, syscall.EINVAL, errno, "the OUI has more than 24 bits")
	ne.PutUint32(b[32:], 0x000102)
	assert.Equal(t, sizeHeaderOld, p.f.headerSize())
	after, errno = p.ioctl(ioctlRegister2, slices.Clone(b))
	require.Zero(t, errno)
	assert.Zero(t, ne.Uint32(after))
	assert.Equal(t, sizeHeader, p.f.headerSize())
	assert.Equal(t, [3]byte{0, 1, 2}, p.f.agents[0].oui)
}

// A program asks another one, which answers.
func TestRequest(t *testing.T) {
	r := newRig(t)
	client, server := r.open("umad0"), r.open("umad1")
	client.must(&registration{qpn: 1}) // another one
	from := client.must(&registration{qpn: 1, class: vendor, version: 1})
	at := server.must(&registration{qpn: 1, class: vendor, version: 1, mask: methodBits(bitGet)})
	h := mad.Header{Class: vendor, ClassVersion: 1, Method: mad.Get, TID: 0x1234_0000_5678, Attribute: 9}
	require.Zero(t, client.write(from, 2, 60_000, datagram(h, 100)))
	assert.Equal(t, syscall.EINVAL, client.write(from, 2, 60_000, datagram(h, mad.Size)), "a duplicate")

	q, b := server.receive()
	assert.Equal(t, header{id: at, length: sizeHeader + mad.Size, to: q.to}, q)
	assert.Equal(t, ci.LID(1), q.to.AV.DLID)
	assert.Equal(t, ci.QPN(1), q.to.QPN)
	require.Len(t, b, mad.Size)
	var got mad.Header
	got.Parse(b)
	assert.Equal(t, mad.Get, got.Method)
	assert.Equal(t, datagram(h, 100)[mad.HeaderLen:], b[mad.HeaderLen:100])
	assert.Equal(t, make([]byte, mad.Size-100), b[100:])

	got.Method = mad.GetResp
	got.Put(b)
	require.Zero(t, server.write(at, q.to.AV.DLID, 0, b))
	q, b = client.receive()
	assert.Equal(t, from, q.id)
	assert.Equal(t, ci.LID(2), q.to.AV.DLID)
	got.Parse(b)
	assert.Equal(t, mad.GetResp, got.Method)
	assert.EqualValues(t, 0x5678, got.TID, "the upper half is the kernel's")
	assert.Empty(t, client.wakes)
}

// A request without a response returns to the program with an error.
func TestTimeout(t *testing.T) {
	r := newRig(t)
	p := r.open("umad0")
	id := p.must(&registration{qpn: 1, class: vendor, version: 1})
	h := mad.Header{Class: vendor, ClassVersion: 1, Method: mad.Send, TID: 5}
	require.Zero(t, p.write(id, 2, 1, datagram(h, mad.Size)))
	q, b := p.receive()
	assert.EqualValues(t, syscall.ETIMEDOUT, q.status)
	assert.Equal(t, id, q.id)
	assert.Equal(t, datagram(h, mad.Size)[:mad.HeaderLen], b)
}

// Writes and reads fail with the errno of Linux.
func TestErrors(t *testing.T) {
	r := newRig(t)
	p := r.open("umad0")
	id := p.must(&registration{qpn: 1, class: vendor, version: 1, mask: methodBits(bitGet)})
	h := mad.Header{Class: vendor, ClassVersion: 1, Method: mad.Get}
	assert.Equal(t, syscall.EINVAL, p.write(id, 2, 0, datagram(h, leastMAD-1)), "short")
	assert.Equal(t, syscall.EINVAL, p.write(id, 2, 0, datagram(h, mad.Size+1)), "long, without RMPP")
	assert.Equal(t, syscall.EINVAL, p.write(maxAgents, 2, 0, datagram(h, mad.Size)))
	assert.Equal(t, syscall.EIO, p.write(id+1, 2, 0, datagram(h, mad.Size)), "no agent")
	assert.Equal(t, syscall.EINVAL, p.write(id, 0, 0, datagram(h, mad.Size)), "no address")
	assert.Equal(t, syscall.EINVAL, p.f.Read(argument, sizeHeader-1).Errno)
	assert.Equal(t, &devices.Reply{Errno: syscall.EAGAIN, Wait: true}, p.f.Read(argument, sizeHeader))

	require.Zero(t, p.write(id, 1, 0, datagram(h, mad.Size))) // to itself
	<-p.wakes
	assert.Equal(t, syscall.EINVAL, p.f.Read(argument, sizeHeader+mad.Size-1).Errno)
	p.wakes <- struct{}{}
	_, b, errno := p.read(sizeHeader + mad.Size)
	assert.Zero(t, errno)
	assert.Len(t, b, mad.Size)
}

// Messages of several datagrams go both ways. A short buffer receives the first datagram, and the length of all.
func TestLong(t *testing.T) {
	r := newRig(t)
	client, server := r.open("umad0"), r.open("umad1")
	q := registration{qpn: 1, class: long, version: 1, oui: [3]byte{1, 2, 3}, rmpp: 1}
	from := client.must(&q)
	q.mask = methodBits(bitGet)
	at := server.must(&q)
	const size = 5000
	message := func(m mad.Method, tid uint64) []byte {
		b := datagram(mad.Header{Class: long, ClassVersion: 1, Method: m, TID: tid}, size)
		clear(b[mad.HeaderLen : mad.RMPPEnd+1])
		b[24], b[26] = 1, 1 // version, and Active
		copy(b[mad.RMPPEnd+1:], q.oui[:])
		return b
	}
	require.Zero(t, client.write(from, 2, 60_000, message(mad.Get, 3)))
	<-server.wakes
	server.wakes <- struct{}{}
	h, b, errno := server.read(sizeHeader + mad.Size)
	assert.Equal(t, syscall.ENOSPC, errno)
	assert.EqualValues(t, sizeHeader+size, h.length)
	assert.Len(t, b, mad.Size)
	h, b = server.receive()
	require.Len(t, b, size)
	assert.Equal(t, message(mad.Get, 3)[mad.RMPPEnd:], b[mad.RMPPEnd:])
	var got mad.Header
	got.Parse(b)
	require.Zero(t, server.write(at, h.to.AV.DLID, 1000, message(mad.GetResp, got.TID)))
	_, b = client.receive()
	require.Len(t, b, size)
	assert.Equal(t, message(mad.GetResp, 3)[mad.RMPPEnd:], b[mad.RMPPEnd:])
}

// A subnet manager has agents of both classes with the same methods, and leaves its port's management to the adapter.
func TestSubnetManager(t *testing.T) {
	r := newRig(t)
	p := r.open("umad0")
	mask := methodBits(bitGet | bitSet | bitTrap)
	lid := p.must(&registration{class: mad.ClassSubnetLID, version: 1, mask: mask})
	route := p.must(&registration{class: mad.ClassSubnetDirected, version: 1, mask: mask})

	require.Zero(t, p.write(route, 0xffff, 60_000, smp(mad.ClassSubnetDirected, mad.Get, mad.AttrNodeInfo)))
	h, b := p.receive()
	assert.Equal(t, route, h.id)
	var got mad.Header
	got.Parse(b)
	assert.Equal(t, mad.GetResp, got.Method)

	other := r.open("umad1")
	sender := other.must(&registration{class: mad.ClassSubnetLID, version: 1})
	require.Zero(t, other.write(sender, 1, 60_000, smp(mad.ClassSubnetLID, mad.Get, mad.AttrSMInfo)))
	h, _ = p.receive()
	assert.Equal(t, lid, h.id, "SMInfo is the manager's")
	q := smp(mad.ClassSubnetLID, mad.Get, mad.AttrNodeInfo)
	q[15]++ // the transaction ID of the first request is in use
	require.Zero(t, other.write(sender, 1, 60_000, q))
	_, b = other.receive()
	got.Parse(b)
	assert.Equal(t, mad.GetResp, got.Method)
	assert.Equal(t, uint16(mad.AttrNodeInfo), got.Attribute)

	// The methods are free when both agents are closed.
	for _, id := range []uint32{lid, route} {
		_, errno := other.register(&registration{class: mad.ClassSubnetLID, version: 1, mask: mask})
		require.Zero(t, errno, "on another port")
		busy := r.open("umad0")
		_, errno = busy.register(&registration{class: mad.ClassSubnetLID, version: 1, mask: mask})
		assert.Equal(t, syscall.EINVAL, errno)
		_, errno = p.ioctl(ioctlUnregister, ne.AppendUint32(nil, id))
		require.Zero(t, errno)
		other.f.Close()
		other = r.open("umad1")
	}
	r.open("umad0").must(&registration{class: mad.ClassSubnetLID, version: 1, mask: mask})
}

// The file issm sets the capability of the port while it is open, once.
func TestManagerCapability(t *testing.T) {
	r := newRig(t)
	client, err := r.al.Open(accesslayer.ClientConfig{Name: "test"})
	require.NoError(t, err)
	defer client.Close()
	ca, err := client.OpenCA(r.al.Adapters()[0].GUID(), nil)
	require.NoError(t, err)
	isManager := func() bool {
		attr, err := ca.Query()
		require.NoError(t, err)
		return attr.Ports[0].Capability&ci.PortCapSM != 0
	}
	require.False(t, isManager())
	f, err := r.front.Open("/dev/infiniband/issm0", self)
	require.NoError(t, err)
	assert.True(t, isManager())
	major, minor := f.Device()
	assert.Equal(t, []uint32{231, 64}, []uint32{major, minor})
	_, err = r.front.Open("/dev/infiniband/issm0", self)
	assert.ErrorIs(t, err, syscall.EAGAIN)
	assert.Equal(t, syscall.EINVAL, f.Call(&devices.Request{Data: []byte{1}}).Errno)
	assert.Equal(t, syscall.ENOTTY, f.Call(&devices.Request{IsIoctl: true}).Errno)
	f.Close()
	assert.False(t, isManager())
	f, err = r.front.Open("/dev/infiniband/issm0", self)
	require.NoError(t, err)
	f.Close()
	assert.Empty(t, r.core.Sessions())
}

// A file whose adapter was removed is readable, and fails.
func TestRemoved(t *testing.T) {
	r := newRig(t)
	p := r.open("umad0")
	id := p.must(&registration{qpn: 1})
	require.NoError(t, r.al.Deregister(r.al.Adapters()[0].GUID()))
	<-p.wakes
	assert.Equal(t, syscall.EIO, p.f.Read(argument, devices.MaxRead).Errno)
	h := mad.Header{Class: vendor, ClassVersion: 1, Method: mad.Get}
	assert.Equal(t, syscall.EIO, p.write(id, 2, 0, datagram(h, mad.Size)))
	_, errno := p.register(&registration{qpn: 1})
	assert.Equal(t, syscall.EPIPE, errno)
	_, err := r.front.Open("/dev/infiniband/umad0", self)
	assert.ErrorIs(t, err, syscall.ENOENT)
	_, err = r.front.Open("/dev/infiniband/umad1", self)
	assert.NoError(t, err)
}
