package ibsim

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/clock"
	"ciddk/mad"
)

var getTable = mad.Header{Class: mad.ClassSubnetAdmin, ClassVersion: 2, Method: mad.GetTable, TID: sampleTID,
	Attribute: mad.AttrLinkRecord}

// segment returns a response to a request with the RMPP header r and length bytes.
func segment(asked *message, r mad.RMPP, length int) *message {
	m := *asked
	m.dlid, m.slid, m.length = asked.slid, 0, length
	m.mad[offMethod] |= uint8(mad.ResponseMask)
	r.Flags |= mad.RMPPActive
	r.Put(m.mad[mad.HeaderLen:])
	return &m
}

func rmpp(m *message) (r mad.RMPP) {
	r.Parse(m.mad[mad.HeaderLen:])
	return r
}

// held returns what the server holds for messages of a program.
func (p *program) held() (transfers, bytes int) {
	p.s.mu.Lock()
	k := p.s.clients[p.number]
	p.s.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.outgoing), k.outgoingBytes
}

// A message that a program leaves to the kernel arrives with the header of a single segment and with its length.
func TestWholeMessage(t *testing.T) {
	_, s := serve(t, Config{})
	manager, p := connected(t, s, "h4", true), connected(t, s, "h1", false)
	p.send(request(4, 1, getTable))
	asked := manager.recv()
	for _, typ := range []mad.RMPPType{0, mad.RMPPData} {
		manager.send(segment(&asked, mad.RMPP{Version: 1, Type: typ}, mad.SAHeaderLen+16))
		m := p.recv()
		assert.Equal(t, mad.SAHeaderLen+16, m.length)
		assert.Zero(t, binary.BigEndian.Uint16(m.mad[offMADStatus:]))
		r := rmpp(&m)
		assert.Equal(t, mad.RMPP{Version: 1, Type: mad.RMPPData, Data1: 1, Data2: 20 + 16,
			Flags: mad.RMPPActive | mad.RMPPFirst | mad.RMPPLast}, r)
		assert.Equal(t, mad.RMPPOK, r.Fault())
	}
	requireEventually(t, func() bool { n, b := manager.held(); return n == 0 && b == 0 })
}

// TestCutMessage sends a message that is longer than the preload library transfers. The program receives the first
// segment only. The server aborts the transfer, which the program does not see.
func TestCutMessage(t *testing.T) {
	_, s := serve(t, Config{})
	manager, p := connected(t, s, "h4", true), connected(t, s, "h1", false)
	p.send(request(4, 1, getTable))
	asked := manager.recv()
	manager.send(segment(&asked, mad.RMPP{Version: 1}, mad.Size))
	m := p.recv()
	assert.Equal(t, mad.RMPPFirst|mad.RMPPActive, rmpp(&m).Flags)
	assert.Equal(t, mad.StatusSATooManyRecords, binary.BigEndian.Uint16(m.mad[offMADStatus:]))
	requireEventually(t, func() bool { n, b := manager.held(); return n == 0 && b == 0 })
	p.send(request(3, 0, nodeInfo))
	m = p.recv()
	assert.EqualValues(t, 3, m.slid, "nothing came before the response")
}

// Of a message in segments, a program gets the first one, and the server refuses the others.
func TestSegments(t *testing.T) {
	_, s := serve(t, Config{})
	manager, p := connected(t, s, "h4", true), connected(t, s, "h1", false)
	p.send(request(4, 1, getTable))
	asked := manager.recv()
	manager.send(segment(&asked, mad.RMPP{Version: 1, Data1: 2}, mad.Size)) // without the first one
	manager.send(segment(&asked, mad.RMPP{Version: 1, Data1: 1, Flags: mad.RMPPFirst}, mad.Size))
	manager.send(segment(&asked, mad.RMPP{Version: 1, Data1: 3}, mad.Size)) // out of order
	manager.send(segment(&asked, mad.RMPP{Version: 1, Data1: 2}, mad.Size))
	manager.send(segment(&asked, mad.RMPP{Version: 1, Data1: 3, Flags: mad.RMPPLast}, mad.SAHeaderLen+8))
	m := p.recv()
	assert.Equal(t, mad.Size, m.length)
	assert.Equal(t, mad.RMPP{Version: 1, Type: mad.RMPPData, Data1: 1, Data2: 3*20 + 408,
		Flags: mad.RMPPActive | mad.RMPPFirst}, rmpp(&m))
	requireEventually(t, func() bool { n, b := manager.held(); return n == 0 && b == 0 })
}

// A message without an acknowledgment is sent again a bounded number of times, and the memory of messages has a bound.
func TestSegmentsLost(t *testing.T) {
	c := clock.NewVirtual(0)
	_, s := serve(t, Config{Clock: c, Watch: time.Hour}) // one timer is that of watch
	manager := connected(t, s, "h4", true)
	asked := *request(4, 1, getTable)
	asked.slid = 0x999 // there is no such LID
	manager.send(segment(&asked, mad.RMPP{Version: 1}, 100))
	requireEventually(t, func() bool { n, _ := manager.held(); return n == 1 && c.Pending() == 2 })
	for range outgoingTries + 1 {
		c.Advance(outgoingTime)
	}
	n, b := manager.held()
	assert.Zero(t, n)
	assert.Zero(t, b)
	assert.Equal(t, 1, c.Pending())

	manager.send(segment(&asked, mad.RMPP{Version: 1}, mad.SAHeaderLen-1)) // shorter than its headers
	manager.send(segment(&asked, mad.RMPP{Version: 1, Data1: 1}, mad.Size))
	requireEventually(t, func() bool { _, b := manager.held(); return b == segmentCost })
	require.Equal(t, 1, c.Pending(), "a message that is not whole is not sent")
}

// requireEventually waits for a condition that another goroutine brings about.
func requireEventually(t testing.TB, f func() bool) {
	t.Helper()
	require.Eventually(t, f, deadline, 5*time.Millisecond)
}
