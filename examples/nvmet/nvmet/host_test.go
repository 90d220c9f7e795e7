package nvmet

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	subsystem = "nqn.2024-01.example:disk"
	hostName  = "nqn.2014-08.org.nvmexpress:uuid:1"
	dynamicID = 0xffff
)

// host connects queues to a target.
type host struct {
	m  *rdmacm.Manager
	at netip.AddrPort
}

// hostQueue is the host's end of a queue.
type hostQueue struct {
	ctx  context.Context
	c    *rdmacm.Conn
	pool *accesslayer.FastRegPool
	id   uint16 // of the last command
}

// private returns the private data of a request.
func private(queue, recvSize, sendSize uint16) []byte {
	b := page(make([]byte, 32))
	b.u16(2, queue)
	b.u16(4, recvSize)
	b.u16(6, sendSize)
	return b
}

func (h host) dial(ctx context.Context, private []byte) (*rdmacm.Conn, error) {
	c := rdmacm.ConnConfig{Plain: true, Private: private, MaxMessage: capsuleLen + 64}
	return (&rdmacm.Dialer{Manager: h.m, Conn: c}).Dial(ctx, h.at)
}

// open makes the connection of a queue with 32 entries.
func (h host) open(t *testing.T, queue uint16) *hostQueue {
	t.Helper()
	c, err := h.dial(t.Context(), private(queue, 32, 31))
	require.NoError(t, err)
	require.Equal(t, uint16(32), binary.LittleEndian.Uint16(c.Reply()[2:]))
	pd, err := c.ID().PD()
	require.NoError(t, err)
	pool, err := pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 4, MaxPages: 80})
	require.NoError(t, err)
	return &hostQueue{ctx: t.Context(), c: c, pool: pool}
}

// close disconnects.
func (q *hostQueue) close(t *testing.T) {
	t.Helper()
	require.NoError(t, q.c.Close())
	require.NoError(t, q.pool.Destroy())
}

// newCommand returns a command without data. Each pair of dwords is a number, as in CDWn, and its value.
func newCommand(op byte, namespace uint32, dwords ...uint32) command {
	c := make(command, commandLen)
	c[0], c[1], c[39] = op, 0x40, descKeyed
	page(c).u32(4, namespace)
	for i := 0; i < len(dwords); i += 2 {
		page(c).u32(int(4*dwords[i]), dwords[i+1])
	}
	return c
}

// with returns a command with a descriptor.
func (c command) with(addr uint64, length int, key uint32, kind byte) command {
	page(c).u64(24, addr)
	page(c).u32(32, uint32(length))
	if kind != descInline {
		page(c).u32(35, key)
	}
	c[39] = kind
	return c
}

// inlined returns a command with data in its capsule.
func (c command) inlined(data []byte) command {
	return append(c.with(0, len(data), 0, descInline), data...)
}

// do executes a command.
func (q *hostQueue) do(t *testing.T, c command) (result uint64, s status) {
	t.Helper()
	q.send(t, c)
	r := q.response(t)
	require.Equal(t, q.id, binary.LittleEndian.Uint16(r[12:]))
	return binary.LittleEndian.Uint64(r), status(binary.LittleEndian.Uint16(r[14:]) >> 1)
}

// send sends a command with the next identifier.
func (q *hostQueue) send(t *testing.T, c command) {
	t.Helper()
	q.id++
	page(c).u16(2, q.id)
	require.NoError(t, q.c.Send(q.ctx, c))
}

func (q *hostQueue) response(t *testing.T) []byte {
	t.Helper()
	r, err := q.c.Recv(q.ctx)
	require.NoError(t, err)
	require.Len(t, r, responseLen)
	return r
}

// keyed executes a command with memory of the host. The target invalidates the key if kind asks for it.
func (q *hostQueue) keyed(t *testing.T, c command, kind byte, b []byte) (result uint64, s status) {
	t.Helper()
	m, err := q.pool.Map(ci.Bytes(b), ci.LocalWrite|ci.RemoteWrite|ci.RemoteRead)
	require.NoError(t, err)
	_, err = q.c.Do(q.ctx, m.Register())
	require.NoError(t, err)
	result, s = q.do(t, c.with(m.Addr, len(b), uint32(m.RKey), kind))
	if kind != descKeyedInvalidate {
		_, err = q.c.Do(q.ctx, m.Invalidate())
		require.NoError(t, err)
	}
	require.NoError(t, m.Unmap()) // fails if the key is valid
	return result, s
}

// connectCommand returns Connect and its data.
func connectCommand(queue, entries uint16, controller uint16, nqn string, keepAlive uint32) (command, []byte) {
	c, data := newCommand(opFabrics, typeConnect, 12, keepAlive), page(make([]byte, connectLen))
	page(c).u16(42, queue)
	page(c).u16(44, entries-1)
	copy(data, "host identifier!")
	data.u16(16, controller)
	copy(data[256:], nqn)
	copy(data[512:], hostName)
	return c, data
}

// connect makes a queue and executes Connect. A controller that is made is enabled.
func (h host) connect(t *testing.T, queue, controller uint16, nqn string, keepAlive uint32) (*hostQueue, uint16) {
	t.Helper()
	q := h.open(t, queue)
	c, data := connectCommand(queue, 32, controller, nqn, keepAlive)
	id, s := q.keyed(t, c, descKeyedInvalidate, data)
	require.Equal(t, statusOK, s)
	if queue == 0 {
		_, s = q.do(t, newCommand(opFabrics, typePropertySet, 11, propCC, 12, ccEnable|0x460000))
		require.Equal(t, statusOK, s)
		ready, s := q.do(t, newCommand(opFabrics, typePropertyGet, 11, propCSTS))
		require.Equal(t, statusOK, s)
		require.EqualValues(t, cstsReady, ready)
	}
	return q, uint16(id)
}
