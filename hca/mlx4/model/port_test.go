package model_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
)

// linkUp returns what QUERY_PORT reports of the link of port 1.
func (d *driver) linkUp() bool {
	d.t.Helper()
	return prm.PortLinkUp.Has(d.query(prm.CmdQueryPort, 1, 0))
}

// waitPort waits for a change of port 1. Others before it are dropped: a change may come late.
func (d *driver) waitPort(subtype uint64) {
	d.t.Helper()
	for prm.EQESubtype.Get(d.waitEvent(asyncEQ, prm.EventPortChange)) != subtype {
	}
}

// closeHCA ends the operation of the adapter. There is no EQ for the event of completion.
func (d *driver) closeHCA() {
	d.t.Helper()
	d.events = false
	d.imm(prm.CmdCloseHCA, 0, 0, 0)
}

// TestClosePort closes and opens a port: traffic stops, the link goes down, and both come back.
func TestClosePort(t *testing.T) {
	a, b := newPeers(t, prm.ServiceUD)
	a.waitPort(prm.PortChangeActive)
	a.qp.start()
	b.qp.start()
	for range 4 {
		b.qp.postRecv(dataSegment(500, b.mr.key, b.mr.start))
		a.qp.postRecv(dataSegment(500, a.mr.key, a.mr.start))
	}
	send := func(from, to *peer, lid uint16, text string) {
		from.qp.post(prm.WQESend, 0, datagramSegment(lid, ci.GID{}, to.qp.num, 0x1234), inlineSegment(text))
		requireCQE(t, from.cq.wait(), from.qp.num, true, prm.WQESend)
	}
	send(a, b, 2, "1")
	require.EqualValues(t, 41, prm.CQEByteCount.Get(b.cq.wait()))

	a.imm(prm.CmdClosePort, 0, 1, 0)
	assert.False(t, a.linkUp())
	assert.True(t, b.linkUp())
	a.imm(prm.CmdClosePort, 0, 1, 0) // Linux does so
	send(a, b, 2, "22")
	send(b, a, 1, "22")
	a.waitPort(prm.PortChangeDown)

	a.imm(prm.CmdInitPort, 0, 1, 0)
	a.waitPort(prm.PortChangeActive)
	assert.True(t, a.linkUp())
	send(a, b, 2, "333")
	require.EqualValues(t, 43, prm.CQEByteCount.Get(b.cq.wait()), "the one before is lost")
	send(b, a, 1, "333")
	require.EqualValues(t, 43, prm.CQEByteCount.Get(a.cq.wait()), "the one before is lost")
}

// TestLinkOfClosedPort checks that the link of a port follows resets and its cable.
func TestLinkOfClosedPort(t *testing.T) {
	for _, isEthernet := range []bool{false, true} {
		c := model.Config{}
		if isEthernet {
			p, err := frame.New(frame.Config{Carrier: frame.NewHub().Join(), MAC: ethMAC(1)})
			require.NoError(t, err)
			c.Ports = []model.PortConfig{{Link: p}}
		} else {
			p, err := direct.New(direct.NewLink(), direct.Config{})
			require.NoError(t, err)
			c.Ports = []model.PortConfig{{Link: p}}
		}
		m, err := model.New(c)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		d := newDriver(t, m)
		d.start()
		requireLink := func(up bool) {
			t.Helper()
			require.Equal(t, up, d.linkUp())
			require.Equal(t, up, c.Ports[0].Link.Attr().State == ci.PortActive)
		}
		requireLink(true) // until the port is closed for the first time
		d.imm(prm.CmdInitPort, 0, 1, 0)
		d.waitPort(prm.PortChangeActive)
		require.NoError(t, m.SetLink(1, false))
		d.waitPort(prm.PortChangeDown)
		d.imm(prm.CmdClosePort, 0, 1, 0)
		requireLink(false)
		d.imm(prm.CmdInitPort, 0, 1, 0)
		requireLink(false) // the cable is still out
		d.imm(prm.CmdClosePort, 0, 1, 0)
		require.NoError(t, m.SetLink(1, true))
		requireLink(false) // the port is closed
		d.imm(prm.CmdInitPort, 0, 1, 0)
		requireLink(true)
		d.waitPort(prm.PortChangeActive)
		requireAlive(t, d) // with a reset
		requireLink(false)
		d.imm(prm.CmdInitPort, 0, 1, 0)
		d.waitPort(prm.PortChangeActive)
		requireLink(true)
		d.closeHCA()
		require.NotEqual(t, ci.PortActive, c.Ports[0].Link.Attr().State)
	}
}

// A filterPair are two adapters on a hub. All frames go to a QP of the second, unless a filter drops them.
type filterPair struct {
	t      *testing.T
	a, b   *ethPeer
	qa, qb *queuePair
	marks  byte
	posted uint64
}

func newFilterPair(t *testing.T) *filterPair {
	hub := frame.NewHub()
	p := &filterPair{t: t, a: newEthPeer(t, hub, 1, false), b: newEthPeer(t, hub, 2, false)}
	p.qa = p.a.newFrameQP(0x300)
	p.restart()
	return p
}

// restart makes the QP of the second adapter.
func (p *filterPair) restart() {
	p.t.Helper()
	p.posted = 0
	p.qb = p.b.newFrameQP(0x300)
	for kind := range uint32(2) {
		p.b.with(prm.CmdWriteMCG, 1<<16|kind<<1, 1, func(b []byte) {
			prm.MCGMembers.Put(b, 1)
			binary.BigEndian.PutUint32(b[prm.MCGQPs:], p.qb.num)
		})
	}
}

// receiveSize is the size of a receive buffer of a filterPair.
const receiveSize = 100

// serviceTag marks a VLAN of an S-tag in the tests of filters.
const serviceTag = 1 << 16

// send sends a frame, and returns the mark at its end. vlan is -1 for a frame without a tag.
func (p *filterPair) send(to [6]byte, vlan int) byte {
	p.t.Helper()
	at := p.b.mr.start + p.posted%(1<<recvLog)*receiveSize
	p.qb.postRecv(dataSegment(receiveSize, p.b.mr.key, at))
	p.posted++
	p.marks++
	f := append(append([]byte{}, to[:]...), p.a.mac[:]...)
	switch {
	case vlan >= serviceTag:
		f = append(f, 0x88, 0xa8, byte(vlan>>8), byte(vlan))
	case vlan >= 0:
		f = append(f, 0x81, 0x00, byte(vlan>>8), byte(vlan))
	}
	f = append(f, 0x12, 0x34, p.marks)
	p.qa.post(prm.WQESend, 0, inlineSegment(string(f)))
	requireCQE(p.t, p.a.cq.wait(), p.qa.num, true, prm.WQESend)
	return p.marks
}

// receive returns the mark of the next frame.
func (p *filterPair) receive() byte {
	p.t.Helper()
	e := p.b.cq.wait()
	requireCQE(p.t, e, p.qb.num, false, prm.CQERecvSend)
	at := prm.CQEWQEIndex.Get(e) % (1 << recvLog) * receiveSize
	return p.b.mr.Bytes[at+prm.CQEByteCount.Get(e)-1]
}

// requirePasses sends a frame, and requires that it passes the filters or not. Another one follows, which no filter
// drops.
func (p *filterPair) requirePasses(passes bool, to [6]byte, vlan int) {
	p.t.Helper()
	first, second := p.send(to, vlan), p.send(p.b.mac, -1)
	got := p.receive()
	require.Equal(p.t, passes, got == first, "frame to %x of VLAN %d", to, vlan)
	if passes {
		got = p.receive()
	} else {
		p.qb.received-- // its buffer waits for the next frame
		p.posted--
	}
	require.Equal(p.t, second, got)
}

// setVLANs sets the filter of VLANs.
func (d *driver) setVLANs(list ...int) {
	d.t.Helper()
	d.with(prm.CmdSetVLANFilter, 1, 0, func(b []byte) {
		for _, v := range list {
			e := b[4*(prm.VLANFilterEntries-1-v/32):]
			binary.BigEndian.PutUint32(e, binary.BigEndian.Uint32(e)|1<<(v%32))
		}
	})
}

// TestVLANFilter receives frames with and without a tag as the filter of VLANs lets them pass.
func TestVLANFilter(t *testing.T) {
	p := newFilterPair(t)
	p.requirePasses(true, p.b.mac, -1)
	p.requirePasses(true, p.b.mac, 5) // no filter yet
	p.b.setVLANs(0, 31, 33, 4095)
	for vlan, passes := range map[int]bool{-1: true, 0: true, 1: false, 5: false, 31: true, 32: false, 33: true,
		4094: false, 4095: true, 7<<13 | 33: true, 7<<13 | 34: false, serviceTag | 33: true, serviceTag | 34: false} {
		p.requirePasses(passes, p.b.mac, vlan)
		p.requirePasses(passes, [6]byte{1, 0, 0x5e, 0, 0, 1}, vlan)
	}
	p.b.setVLANs()
	p.requirePasses(false, p.b.mac, 33)
	p.requirePasses(true, p.b.mac, -1)
	s, _ := p.b.exec(prm.CmdSetVLANFilter, p.b.in.IOVA, 2, 0, 0)
	require.Equal(t, prm.BadParam, s, "there is no second port")
	s, _ = p.b.exec(prm.CmdSetVLANFilter, 1<<60, 1, 0, 0)
	require.Equal(t, prm.BadParam, s, "the mailbox is not mapped")
	p.requirePasses(false, p.b.mac, 33)
}

// TestGroupFilter receives frames to groups as their filter lets them pass.
func TestGroupFilter(t *testing.T) {
	p := newFilterPair(t)
	set := func(mode uint8, mac [6]byte, clear uint64) prm.Status {
		b := make([]byte, 8)
		copy(b[2:], mac[:])
		prm.McastFilterClear.Put(b, clear)
		s, _ := p.b.exec(prm.CmdSetMcastFlt, binary.BigEndian.Uint64(b), 1, mode, 0)
		return s
	}
	all, one, two := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, [6]byte{1, 0, 0x5e, 0, 0, 1}, [6]byte{0x33, 0x33}
	requireSet := func(mode uint8, mac [6]byte, clear uint64) { require.Equal(t, prm.OK, set(mode, mac, clear)) }
	requirePasses := func(a, o, w bool) {
		t.Helper()
		p.requirePasses(a, all, -1)
		p.requirePasses(o, one, -1)
		p.requirePasses(w, two, -1)
		p.requirePasses(true, p.b.mac, -1)
	}
	requirePasses(true, true, true)
	requireSet(prm.McastFilterDisable, [6]byte{}, 0) // as Linux does
	requireSet(prm.McastFilterConfig, all, 1)
	requireSet(prm.McastFilterConfig, one, 0)
	requirePasses(true, true, true)
	requireSet(prm.McastFilterEnable, [6]byte{}, 0)
	requirePasses(true, true, false)
	requireSet(prm.McastFilterConfig, two, 0) // while it is on
	requirePasses(true, true, true)
	requireSet(prm.McastFilterConfig, two, 1)
	requirePasses(false, false, true)
	requireSet(prm.McastFilterDisable, [6]byte{}, 0)
	requirePasses(true, true, true)
	require.Equal(t, prm.BadOp, set(3, all, 0))

	// A driver cannot make the filter grow without end.
	var status prm.Status
	count := 1 // two
	for ; count < 1<<16 && status == prm.OK; count++ {
		status = set(prm.McastFilterConfig, [6]byte{0x33, 0x33, 1, 0, byte(count >> 8), byte(count)}, 0)
	}
	require.Equal(t, prm.ExceedLim, status)
	require.Equal(t, prm.OK, set(prm.McastFilterConfig, two, 0), "it has this one already")
	requireSet(prm.McastFilterConfig, one, 1)

	// Filters end with the operation of the adapter.
	p.b.setVLANs()
	p.b.closeHCA()
	requireAlive(t, p.b.driver)
	p.b.imm(prm.CmdInitPort, 0, 1, 0)
	p.b.cq, p.b.mr = p.b.newCQ(128, 6), p.b.newMR(regionSize)
	p.restart()
	requirePasses(true, true, true)
	p.requirePasses(true, p.b.mac, 7)
}
