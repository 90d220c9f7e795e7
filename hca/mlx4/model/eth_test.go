package model_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/frame"
	"ciddk/mad"
)

// An ethPeer is a driver of an adapter with an Ethernet port.
type ethPeer struct {
	*driver
	mac [6]byte
	gid ci.GID
	cq  *completionQueue
	mr  *memoryRegion
}

func ethMAC(n byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, n} }
func ethGID(n byte) ci.GID  { return ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: n} }

func newEthPeer(t testing.TB, hub *frame.Hub, n byte, pro bool) *ethPeer {
	p := &ethPeer{mac: ethMAC(n), gid: ethGID(n)}
	port, err := frame.New(frame.Config{Carrier: hub.Join(), MAC: p.mac})
	require.NoError(t, err)
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: port}}, Pro: pro})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	p.driver = newDriver(t, m)
	p.start()
	q := p.query(prm.CmdQueryPort, 1, 0)
	require.EqualValues(t, prm.PortTypeEth, prm.PortTypes.Get(q))
	require.Equal(t, 0x020000000000|uint64(n), prm.PortMAC.Get(q))
	p.imm(prm.CmdInitPort, 0, 1, 0)
	p.cq, p.mr = p.newCQ(128, 6), p.newMR(regionSize)
	return p
}

// steer sends the frames to a MAC address to a QP.
func (p *ethPeer) steer(index uint32, mac [6]byte, qpn uint32) {
	p.with(prm.CmdWriteMCG, index, 0, func(b []byte) {
		prm.MCGProtocol.Put(b, prm.ProtocolEth)
		prm.MCGMembers.Put(b, 1)
		g := prm.MCGGID.Bytes(b, 16)
		g[5] = 1
		copy(g[10:], mac[:])
		binary.BigEndian.PutUint32(b[prm.MCGQPs:], qpn)
	})
}

// newFrameQP returns a QP of raw frames in RTS.
func (p *ethPeer) newFrameQP(num uint32) *queuePair {
	return p.newFrameQPOn(num, p.cq)
}

// newFrameQPOn returns a QP of raw frames in RTS that completes on a queue.
func (p *ethPeer) newFrameQPOn(num uint32, cq *completionQueue) *queuePair {
	q := p.newQP(num, prm.ServiceMLX, cq)
	prm.PathLinkType.Put(prm.QPCPrimary.Bytes(q.context, prm.PathSize), prm.PathLinkEthernet)
	q.start()
	return q
}

// TestNodeInfo reads node GUID and description of an Ethernet port, as Linux's driver does.
func TestNodeInfo(t *testing.T) {
	p := newEthPeer(t, frame.NewHub(), 1, true)
	get := func(attr uint16) mad.Header {
		p.fill(func(b []byte) {
			h := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get, TID: 7,
				Attribute: attr}
			h.Put(b)
		})
		p.must(prm.CmdMADIFC, 1, 1)
		var h mad.Header
		h.Parse(p.out.Bytes)
		return h
	}
	h := get(mad.AttrNodeInfo)
	require.Equal(t, mad.GetResp, h.Method)
	require.Zero(t, h.Status)
	var info mad.NodeInfo
	info.Parse(p.out.Bytes[64:])
	require.NotZero(t, info.NodeGUID)
	require.EqualValues(t, 1, info.NumPorts)
	require.EqualValues(t, prm.DeviceConnectX3Pro, info.DeviceID)
	require.Zero(t, get(mad.AttrNodeDescription).Status)
	require.Zero(t, get(mad.AttrPKeyTable).Status)
	require.Equal(t, []byte{0xff, 0xff, 0, 0}, p.out.Bytes[64:68])
	require.NotZero(t, get(mad.AttrPortInfo).Status, "an Ethernet port has no subnet manager")
	for _, method := range []mad.Method{mad.Trap, mad.Send, mad.TrapRepress, mad.GetResp} {
		p.fill(func(b []byte) {
			h := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: method, TID: 7,
				Attribute: mad.AttrNodeInfo}
			h.Put(b)
		})
		status, _ := p.exec(prm.CmdMADIFC, p.in.IOVA, 1, 1, p.out.IOVA)
		require.Equal(t, prm.BadPkt, status, "%v has no response", method)
	}
}

// A frame with a UDP datagram, whose checksums the adapter fills in.
func TestFrames(t *testing.T) {
	hub := frame.NewHub()
	a, b := newEthPeer(t, hub, 1, false), newEthPeer(t, hub, 2, false)
	qa, qb := a.newFrameQP(0x300), b.newFrameQP(0x300)
	b.steer(7, b.mac, qb.num)
	f := append(append(append([]byte{}, b.mac[:]...), a.mac[:]...), 0x08, 0)
	f = append(f, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2) // IPv4
	f = append(f, 0x12, 0x34, 0, 7, 0, 12, 0, 0, 'd', 'a', 't', 'a')                  // UDP
	copy(a.mr.Bytes[100:], f)
	qb.postRecv(dataSegment(2048, b.mr.key, b.mr.start))
	qa.postWith(prm.WQESend, 1<<4|1<<5, dataSegment(len(f), a.mr.key, a.mr.start+100))
	requireCQE(t, a.cq.wait(), qa.num, true, prm.WQESend)
	e := b.cq.wait()
	requireCQE(t, e, qb.num, false, prm.CQERecvSend)
	require.EqualValues(t, len(f), prm.CQEByteCount.Get(e))
	require.Equal(t, prm.CQEIPv4|prm.CQEIPChecksumOK|prm.CQEUDP, prm.CQEFlags.Get(e))
	require.Equal(t, prm.CQEL4ChecksumOK, prm.CQEChecksum.Get(e))
	got := b.mr.Bytes[:len(f)]
	require.Equal(t, []byte{0x66, 0xcb}, got[24:26], "header checksum")
	require.Zero(t, foldSum(got[14:34]))
	pseudo := append(append([]byte{}, got[26:34]...), 0, 17, 0, 12)
	require.Zero(t, foldSum(append(pseudo, got[34:]...)), "UDP checksum")
	require.Equal(t, "data", string(got[42:]))

	// Errors: memory that is not registered, and a frame that does not fit.
	qa.post(prm.WQESend, 0, dataSegment(60, a.mr.key+0x100, a.mr.start))
	e = a.cq.wait()
	require.EqualValues(t, prm.SynLocalProtection, prm.CQESyndrome.Get(e))
	qb.postRecv(dataSegment(10, b.mr.key, b.mr.start))
	qa.post(prm.WQESend, 0, dataSegment(len(f), a.mr.key, a.mr.start+100))
	requireCQE(t, a.cq.wait(), qa.num, true, prm.WQESend)
	require.EqualValues(t, prm.SynLocalLength, prm.CQESyndrome.Get(b.cq.wait()))

	a.imm(prm.Cmd2RST, 0, qa.num, 2)
	s, _ := b.exec(prm.CmdHW2SWCQ, 0, b.cq.num, 1, 0)
	require.Equal(t, prm.ResourceBusy, s, "a QP uses the queue")
}

// foldSum returns the complement of the sum of the 16-bit words of b.
func foldSum(b []byte) uint16 {
	var v uint32
	for i := 0; i+1 < len(b); i += 2 {
		v += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for v > 0xffff {
		v = v>>16 + v&0xffff
	}
	return ^uint16(v)
}

// Reliable connections over RoCE v1 and v2.
func TestRoCE(t *testing.T) {
	for name, version2 := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, func(t *testing.T) {
			hub := frame.NewHub()
			a, b := newEthPeer(t, hub, 1, version2), newEthPeer(t, hub, 2, version2)
			for _, p := range []*ethPeer{a, b} {
				p.setGID(3, version2)
			}
			qa, qb := a.newQP(0x240, prm.ServiceRC, a.cq), b.newQP(0x240, prm.ServiceRC, b.cq)
			for _, e := range []struct {
				q    *queuePair
				peer *ethPeer
			}{{qa, b}, {qb, a}} {
				path := prm.QPCPrimary.Bytes(e.q.context, prm.PathSize)
				prm.PathLinkType.Put(path, prm.PathLinkEthernet)
				prm.PathGRH.Put(path, 1)
				prm.PathGIDIndex.Put(path, 3)
				prm.PathHopLimit.Put(path, 64)
				copy(prm.PathGID.Bytes(path, 16), e.peer.gid[:])
				copy(path[prm.PathMAC.Off+2:], e.peer.mac[:])
				prm.QPCMTU.Put(e.q.context, 3)
				e.q.connect(0, 0x240)
			}
			for i := range a.mr.Bytes {
				a.mr.Bytes[i] = byte(i * 3)
			}
			qb.postRecv(dataSegment(9000, b.mr.key, b.mr.start))
			qa.post(prm.WQESend, 0, dataSegment(9000, a.mr.key, a.mr.start))
			requireCQE(t, b.cq.wait(), qb.num, false, prm.CQERecvSend)
			requireCQE(t, a.cq.wait(), qa.num, true, prm.WQESend)
			require.True(t, bytes.Equal(a.mr.Bytes[:9000], b.mr.Bytes[:9000]))
		})
	}
}

// setGID sets an entry of the GID table.
func (p *ethPeer) setGID(index int, version2 bool) {
	if !version2 {
		p.with(prm.CmdSetPort, prm.SetPortGIDTable<<8|1, prm.SetPortModeEth, func(b []byte) {
			copy(b[16*index:], p.gid[:])
		})
		return
	}
	p.setRoCEGID(index, true)
}

// Management datagrams between the QP1 of Ethernet ports. Those in RoCE v2 come from another QP, as with Linux, but
// name QP1 as their source, and QP1 receives them.
func TestManagementEthernet(t *testing.T) {
	for name, version2 := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, func(t *testing.T) {
			hub := frame.NewHub()
			a, b := newEthPeer(t, hub, 1, true), newEthPeer(t, hub, 2, true)
			var qp1 [2]*queuePair
			for i, p := range []*ethPeer{a, b} {
				p.setRoCEGID(3, version2)
				p.imm(prm.CmdConfSpecialQP, 0, 0x200, 0)
				qp1[i] = p.newQP(0x202, prm.ServiceMLX, p.cq)
				qp1[i].start()
				qp1[i].postRecv(dataSegment(40+mad.Size, p.mr.key, p.mr.start))
			}
			const at = 4096 // of the datagram in the region
			for i, p := range []*ethPeer{a, b} {
				peer, q := []*ethPeer{b, a}[i], qp1[i]
				if version2 {
					q = p.newQP(0x300, prm.ServiceMLX, p.cq)
					q.start()
				}
				for k := range mad.Size {
					p.mr.Bytes[at+k] = byte(k * (i + 3))
				}
				q.postMLX(0, inlineSegments(p.managementHeader(peer, version2),
					dataSegment(mad.Size, p.mr.key, p.mr.start+at), inlineSegment("\x00\x00\x00\x00"))...)
				requireCQE(t, p.cq.wait(), q.num, true, prm.WQESend)
				e := peer.cq.wait()
				requireCQE(t, e, 0x202, false, prm.CQERecvSend)
				require.EqualValues(t, 40+mad.Size, prm.CQEByteCount.Get(e))
				require.EqualValues(t, 1, prm.CQERemoteQPN.Get(e), "the source is QP1")
				require.True(t, prm.CQEGRH.Has(e))
				require.Zero(t, prm.CQEPKeyIndex.Get(e))
				require.Equal(t, p.mr.Bytes[at:at+mad.Size], peer.mr.Bytes[40:40+mad.Size])
				if area := peer.mr.Bytes[:40]; version2 {
					require.Equal(t, make([]byte, 20), area[:20])
					require.Zero(t, foldSum(area[20:]), "the IPv4 header is at the end of the area")
					require.Equal(t, p.gid[12:], area[32:36])
				} else {
					require.Equal(t, p.gid[:], area[8:24])
				}
			}
		})
	}
}

// A QP that sends for QP1 is for RoCE v2 only, which a ConnectX-3 does not have, and InfiniBand ports have none.
func TestManagementWithoutRoCEv2(t *testing.T) {
	p := newEthPeer(t, frame.NewHub(), 1, false)
	q := p.newQP(0x300, prm.ServiceMLX, p.cq)
	p.fill(func(b []byte) { copy(b[prm.QPContext.Off:], q.context) })
	s, _ := p.exec(prm.CmdRST2INIT, p.in.IOVA, q.num, 0, 0)
	require.Equal(t, prm.BadParam, s)
}

// managementHeader returns the headers of a datagram from QP1 to QP1, as the driver makes them.
func (p *ethPeer) managementHeader(to *ethPeer, version2 bool) string {
	h := string(to.mac[:]) + string(p.mac[:])
	const transport = 12 + 8 + mad.Size + 4 // BTH to ICRC
	if version2 {
		const udp = 8 + transport
		const total = 20 + udp
		h += "\x08\x00" + string([]byte{0x45, 0, total >> 8, total & 0xff, 0, 0, 0x40, 0, 64, 17, 0, 0})
		h += string(p.gid[12:]) + string(to.gid[12:])
		h += string([]byte{0xc0, 0, 0x12, 0xb7, udp >> 8, udp & 0xff, 0, 0})
	} else {
		h += "\x89\x15" + string([]byte{0x60, 0, 0, 0, transport >> 8, transport & 0xff, 0x1b, 64})
		h += string(p.gid[:]) + string(to.gid[:])
	}
	h += string([]byte{100, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 9}) // BTH
	return h + string([]byte{0x80, 1, 0, 0, 0, 0, 0, 1})            // DETH
}

// inlineSegments returns the segments of a WQE that begins with inline data, which do not cross 64 bytes of the WQE.
func inlineSegments(data string, rest ...[]byte) (list [][]byte) {
	const room = 64 - prm.CtrlSegment - 4
	if len(data) > room {
		list = append(list, inlineSegment(data[:room]))
		data = data[room:]
	}
	return append(append(list, inlineSegment(data)), rest...)
}

// setRoCEGID sets an entry of the table of RoCE addresses, which a ConnectX-3 Pro has for both versions.
func (p *ethPeer) setRoCEGID(index int, version2 bool) {
	p.with(prm.CmdSetPort, prm.SetPortRoCEAddr<<8|1, prm.SetPortModeEth, func(b []byte) {
		e := b[32*index:]
		copy(e, p.gid[:])
		if version2 {
			prm.RoCEVersion.Put(e, 2)
		}
	})
}
