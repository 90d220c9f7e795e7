package model_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/mlx4/prm"
	"ciddk/link/frame"
)

const (
	tcp = 6
	udp = 17

	ipChecksum = 1 << 4 // flags of a control segment
	l4Checksum = 1 << 5
)

// A flow is the addresses of a packet.
type flow struct {
	protocol byte
	from, to string // address:port
}

// frame returns a frame of the flow, without checksums.
func (w flow) frame(to, from [6]byte, payload []byte) []byte {
	src, dst := netip.MustParseAddrPort(w.from), netip.MustParseAddrPort(w.to)
	be := binary.BigEndian
	l4 := be.AppendUint16(be.AppendUint16(nil, src.Port()), dst.Port())
	if w.protocol == tcp {
		l4 = append(l4, 0x7f, 0xff, 0xff, 0xf0, 1, 2, 3, 4, 5<<4, 0x80|0x18|1, 1, 0, 0, 0, 0, 0) // CWR, ACK, PSH, FIN
	} else {
		l4 = be.AppendUint16(l4, uint16(8+len(payload)))
		l4 = append(l4, 0, 0)
	}
	l4 = append(l4, payload...)
	f := append(append([]byte{}, to[:]...), from[:]...)
	if src.Addr().Is4() {
		f = append(f, 8, 0, 0x45, 0)
		f = be.AppendUint16(f, uint16(20+len(l4)))
		f = append(f, 0xff, 0xff, 0x40, 0, 64, w.protocol, 0, 0)
	} else {
		f = append(f, 0x86, 0xdd, 0x60, 0, 0, 0)
		f = be.AppendUint16(f, uint16(len(l4)))
		f = append(f, w.protocol, 64)
	}
	f = append(append(f, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	return append(f, l4...)
}

// headers returns the number of bytes in front of the payload.
func (w flow) headers() int {
	n := 14 + 20 + 20
	if w.protocol == udp {
		n -= 12
	}
	if netip.MustParseAddrPort(w.from).Addr().Is6() {
		n += 20
	}
	return n
}

// requireSums requires that the checksums of a packet are right. ip is the offset of its header.
func requireSums(t *testing.T, f []byte, ip int) {
	t.Helper()
	l4, pseudo := ip+40, append([]byte{}, f[ip+8:ip+40]...)
	protocol := f[ip+6]
	if f[ip]>>4 == 4 {
		require.Zero(t, foldSum(f[ip:ip+20]), "the header of IPv4")
		l4, pseudo, protocol = ip+20, append([]byte{}, f[ip+12:ip+20]...), f[ip+9]
	}
	n := len(f) - l4
	pseudo = append(pseudo, 0, 0, 0, protocol, 0, 0, byte(n>>8), byte(n))
	b := append(pseudo, f[l4:]...)
	if n%2 == 1 {
		b = append(b, 0)
	}
	require.Zero(t, foldSum(b), "the transport")
}

const (
	tcp4 = "10.0.0.1:1000"
	tcp6 = "[fe80::1]:1000"
)

var (
	flow4 = flow{tcp, tcp4, "10.0.0.2:80"}
	flow6 = flow{tcp, tcp6, "[fe80::2]:80"}
)

// frameQPs are two peers on a hub, with a QP of frames each.
type frameQPs struct {
	t      *testing.T
	a, b   *ethPeer
	qa, qb *queuePair
}

func newFrameQPs(t *testing.T) *frameQPs {
	hub := frame.NewHub()
	p := &frameQPs{t: t, a: newEthPeer(t, hub, 1, false), b: newEthPeer(t, hub, 2, false)}
	p.qa, p.qb = p.a.newFrameQP(0x300), p.b.newFrameQP(0x300)
	p.b.steer(7, p.b.mac, p.qb.num)
	return p
}

const recvBuffer = 2048

// postRecvs posts n receive buffers, one behind the other.
func (p *frameQPs) postRecvs(n int) {
	for i := range n {
		p.qb.postRecv(dataSegment(recvBuffer, p.b.mr.key, p.b.mr.start+uint64(i*recvBuffer)))
	}
}

// received returns the next frame, which is in receive buffer i, and its completion.
func (p *frameQPs) received(i int) (f, cqe []byte) {
	e := p.b.cq.wait()
	requireCQE(p.t, e, p.qb.num, false, prm.CQERecvSend)
	return p.b.mr.Bytes[i*recvBuffer:][:prm.CQEByteCount.Get(e)], e
}

// send sends a frame from the first peer.
func (p *frameQPs) send(f []byte, flags uint8) {
	copy(p.a.mr.Bytes, f)
	p.qa.postWith(prm.WQESend, flags, dataSegment(len(f), p.a.mr.key, p.a.mr.start))
	requireCQE(p.t, p.a.cq.wait(), p.qa.num, true, prm.WQESend)
}

// tagNext sets the VLAN tag of the next WQE of a send queue.
func (q *queuePair) tagNext(tci uint16) { q.tagNextWith(&prm.CtrlInsertCVLAN, tci) }

// tagNextWith sets a C-tag or an S-tag of the next WQE of a send queue.
func (q *queuePair) tagNextWith(insert *prm.Field, tci uint16) {
	wqe := q.mem.Bytes[q.sent&(1<<sendLog-1)<<sendStride:]
	prm.CtrlVLAN.Put(wqe, uint64(tci))
	insert.Put(wqe, 1)
}

// lsoSegment returns the segment of a large send.
func lsoSegment(mss int, header []byte) []byte {
	b := make([]byte, (4+len(header)+15)&^15)
	prm.LSOSegmentSize.Put(b, uint64(mss))
	prm.LSOHeaderSize.Put(b, uint64(len(header)))
	copy(b[4:], header)
	return b
}

// TestLargeSend checks the segments of large sends: lengths, numbers, flags, checksums, and the data.
func TestLargeSend(t *testing.T) {
	for _, w := range []flow{flow4, flow6} {
		for _, size := range []int{1, 999, 1000, 1001, 3500} {
			t.Run(fmt.Sprint(w.from, " ", size), func(t *testing.T) {
				const mss = 1000
				p := newFrameQPs(t)
				p.postRecvs(4)
				payload := make([]byte, size)
				for i := range payload {
					payload[i] = byte(i * 7)
				}
				header := w.frame(p.b.mac, p.a.mac, payload)[:w.headers()]
				copy(p.a.mr.Bytes[100:], payload)
				p.qa.tagNext(0x2005)
				p.qa.post(prm.WQELSO, 0, lsoSegment(mss, header), dataSegment(size, p.a.mr.key, p.a.mr.start+100))
				requireCQE(t, p.a.cq.wait(), p.qa.num, true, prm.WQELSO)
				var got []byte
				last := (size - 1) / mss
				for i := range last + 1 {
					f, e := p.received(i)
					require.True(t, prm.CQECVLAN.Has(e))
					require.EqualValues(t, 0x2005, prm.CQEVLAN.Get(e))
					requireSums(t, f, 14)
					require.Equal(t, header[:14], f[:14])
					if w == flow4 {
						require.Equal(t, uint16(0xffff+i), binary.BigEndian.Uint16(f[18:]), "identification")
					}
					at := w.headers() - 20
					require.Equal(t, 0x7ffffff0+uint32(i*mss), binary.BigEndian.Uint32(f[at+4:]), "sequence number")
					flags := byte(0x10)
					if i == 0 {
						flags |= 0x80
					}
					if i == last {
						flags |= 9
					}
					require.Equal(t, flags, f[at+13], "flags of segment %d", i)
					got = append(got, f[w.headers():]...)
				}
				require.True(t, bytes.Equal(payload, got))
				require.Nil(t, p.b.cq.poll())
			})
		}
	}
}

// TestBadLargeSend checks that invalid large sends complete with an error and send nothing.
func TestBadLargeSend(t *testing.T) {
	p := newFrameQPs(t)
	p.postRecvs(1)
	header := flow4.frame(p.b.mac, p.a.mac, nil)
	short := append([]byte{}, header...)
	short[46] = 15 << 4 // TCP header of 60 bytes
	datagram := flow{udp, "10.0.0.1:1", "10.0.0.2:2"}.frame(p.b.mac, p.a.mac, make([]byte, 12))
	data := dataSegment(3000, p.a.mr.key, p.a.mr.start)
	for _, tt := range []struct {
		name     string
		segments [][]byte
		want     prm.Syndrome
	}{
		{"no segment size", [][]byte{lsoSegment(0, header), data}, prm.SynLocalQPOp},
		{"segment longer than the longest frame", [][]byte{lsoSegment(9600, header), data}, prm.SynLocalQPOp},
		{"no header", [][]byte{lsoSegment(1000, nil), data}, prm.SynLocalQPOp},
		{"header beyond the WQE", [][]byte{lsoSegment(1000, header)[:16]}, prm.SynLocalQPOp},
		{"TCP header beyond the header", [][]byte{lsoSegment(1000, short), data}, prm.SynLocalQPOp},
		{"UDP", [][]byte{lsoSegment(1000, datagram), data}, prm.SynLocalQPOp},
		{"no IP", [][]byte{lsoSegment(1000, make([]byte, 54)), data}, prm.SynLocalQPOp},
		{"memory of others", [][]byte{lsoSegment(1000, header), dataSegment(3000, p.a.mr.key+0x100, p.a.mr.start)},
			prm.SynLocalProtection},
		{"too long", [][]byte{lsoSegment(1000, header), dataSegment(1<<18, p.a.mr.key, p.a.mr.start)},
			prm.SynLocalLength},
	} {
		p.qa.post(prm.WQELSO, 0, tt.segments...)
		e := p.a.cq.wait()
		require.EqualValues(t, prm.CQEOpcodeError, prm.CQEOpcode.Get(e), tt.name)
		require.EqualValues(t, tt.want, prm.CQESyndrome.Get(e), tt.name)
	}
	require.Nil(t, p.b.cq.poll())
	p.send(header, 0)
	p.received(0)
}

// TestReceiveChecksums checks what completions report of the checksums of received packets.
func TestReceiveChecksums(t *testing.T) {
	p := newFrameQPs(t)
	datagram := flow{udp, "10.0.0.1:1", "10.0.0.2:2"}
	for _, tt := range []struct {
		name   string
		frame  []byte
		flags  uint8
		change func(f []byte)
		want   uint64
		isGood bool
	}{
		{"TCP", flow4.frame(p.b.mac, p.a.mac, []byte("odd")), ipChecksum | l4Checksum, nil,
			prm.CQEIPv4 | prm.CQEIPChecksumOK | prm.CQETCP, true},
		{"TCP over IPv6", flow6.frame(p.b.mac, p.a.mac, []byte("data")), l4Checksum, nil,
			prm.CQEIPv6 | prm.CQEIPChecksumOK | prm.CQETCP, true},
		{"UDP", datagram.frame(p.b.mac, p.a.mac, []byte("data")), ipChecksum | l4Checksum, nil,
			prm.CQEIPv4 | prm.CQEIPChecksumOK | prm.CQEUDP, true},
		{"UDP without checksum", datagram.frame(p.b.mac, p.a.mac, []byte("data")), ipChecksum, nil,
			prm.CQEIPv4 | prm.CQEIPChecksumOK | prm.CQEUDP, false},
		{"wrong checksum of TCP", flow4.frame(p.b.mac, p.a.mac, []byte("data")), ipChecksum, nil,
			prm.CQEIPv4 | prm.CQEIPChecksumOK | prm.CQETCP, false},
		{"wrong checksum of IPv4", flow4.frame(p.b.mac, p.a.mac, []byte("data")), l4Checksum, nil,
			prm.CQEIPv4 | prm.CQETCP, true},
		{"fragment", flow4.frame(p.b.mac, p.a.mac, []byte("data")), ipChecksum, func(f []byte) { f[20] = 0x20 },
			prm.CQEIPv4 | prm.CQEIPChecksumOK | prm.CQEIPv4Fragment, false},
		{"other type", append(append(append([]byte{}, p.b.mac[:]...), p.a.mac[:]...), 0x12, 0x34, 1, 2), 0, nil, 0,
			false},
	} {
		if tt.change != nil {
			tt.change(tt.frame)
		}
		p.qb.postRecv(dataSegment(recvBuffer, p.b.mr.key, p.b.mr.start))
		p.send(tt.frame, tt.flags)
		f, e := p.received(0)
		require.Len(t, f, len(tt.frame), tt.name)
		assert.Equal(t, tt.want, prm.CQEFlags.Get(e), tt.name)
		assert.Equal(t, tt.isGood, prm.CQEChecksum.Get(e) == prm.CQEL4ChecksumOK, tt.name)
	}
}

// TestVLAN checks that a tag is inserted, and that a receiver has it in the completion or in the frame, as it wants.
func TestVLAN(t *testing.T) {
	for _, tt := range []struct {
		insert, present, other *prm.Field
		kind                   []byte
	}{
		{&prm.CtrlInsertCVLAN, &prm.CQECVLAN, &prm.CQESVLAN, []byte{0x81, 0}},
		{&prm.CtrlInsertSVLAN, &prm.CQESVLAN, &prm.CQECVLAN, []byte{0x88, 0xa8}},
	} {
		for _, keep := range []uint64{0, 1} {
			hub := frame.NewHub()
			p := &frameQPs{t: t, a: newEthPeer(t, hub, 1, false), b: newEthPeer(t, hub, 2, false)}
			p.qa = p.a.newFrameQP(0x300)
			p.qb = p.b.newQP(0x300, prm.ServiceMLX, p.b.cq)
			prm.PathLinkType.Put(prm.QPCPrimary.Bytes(p.qb.context, prm.PathSize), prm.PathLinkEthernet)
			prm.QPCKeepVLAN.Put(p.qb.context, keep)
			p.qb.start()
			p.b.steer(7, p.b.mac, p.qb.num)
			p.postRecvs(1)
			sent := flow4.frame(p.b.mac, p.a.mac, []byte("tagged"))
			p.qa.tagNextWith(tt.insert, 0x6123)
			p.send(sent, ipChecksum|l4Checksum)
			f, e := p.received(0)
			require.Equal(t, prm.CQEIPv4|prm.CQEIPChecksumOK|prm.CQETCP, prm.CQEFlags.Get(e))
			require.Equal(t, keep == 0, tt.present.Has(e))
			require.False(t, tt.other.Has(e))
			if keep == 0 {
				require.EqualValues(t, 0x6123, prm.CQEVLAN.Get(e))
				require.Equal(t, sent[:14], f[:14])
				requireSums(t, f, 14)
				continue
			}
			require.Equal(t, slices.Concat(sent[:12], tt.kind, []byte{0x61, 0x23, 8, 0}), f[:18])
			requireSums(t, f, 18)
		}
	}
}

// TestTagCapabilities checks what a driver reads about S-tags. The adapter does not offer to insert them. It does not
// skip the outer tag of received frames, so it filters by an S-tag, and completions have it.
func TestTagCapabilities(t *testing.T) {
	p := newEthPeer(t, frame.NewHub(), 1, true)
	b := p.query(prm.CmdQueryDevCap, 0, 0)
	// linux fw.c: QUERY_DEV_CAP_PHV_EN_OFFSET, QUERY_DEV_CAP_SVLAN_BY_QP_OFFSET
	require.Zero(t, b[0x96]&0xc0, "MLX4_DEV_CAP_FLAG2_PHV_EN and MLX4_DEV_CAP_FLAG2_SKIP_OUTER_VLAN")
	require.Zero(t, b[0x5d]&0x01, "MLX4_DEV_CAP_FLAG2_SVLAN_BY_QP")
}

// TestNestedVLAN checks that only the outer tag of a frame with two is removed, which is the S-tag here.
func TestNestedVLAN(t *testing.T) {
	p := newFrameQPs(t)
	p.postRecvs(1)
	plain := flow4.frame(p.b.mac, p.a.mac, []byte("nested"))
	sent := slices.Concat(plain[:12], []byte{0x81, 0, 0, 5}, plain[12:])
	p.qa.tagNextWith(&prm.CtrlInsertSVLAN, 7)
	p.send(sent, ipChecksum|l4Checksum)
	f, e := p.received(0)
	require.True(t, prm.CQESVLAN.Has(e))
	require.False(t, prm.CQECVLAN.Has(e))
	require.EqualValues(t, 7, prm.CQEVLAN.Get(e))
	require.Equal(t, sent[:18], f[:18])
	requireSums(t, f, 18)
}

// msKey is the key of the published test vectors of RSS.
var msKey = []byte{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
	0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
	0xbe, 0xac, 0x01, 0xfa}

// TestRSS checks hash and queue of received packets against the published test vectors of Toeplitz, and against sums
// made by hand for the other function.
func TestRSS(t *testing.T) {
	const log, parent, base, baseUDP, other = 2, 0x340, 0x400, 0x410, 0x420
	const all = 0x3f // kinds of packets
	const onlyIP = 1<<5 | 1<<3
	first, second := flow{tcp, "66.9.149.187:2794", "161.142.100.80:1766"}, flow{tcp, "199.92.111.2:14230",
		"65.69.140.83:4739"}
	six := flow{tcp, "[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766"}
	datagram := first
	datagram.protocol = udp
	for _, tt := range []struct {
		name     string
		flow     flow
		function uint64
		kinds    uint64
		base     uint32
		hash     uint32
	}{
		{"TCP", first, prm.RSSToeplitz, all, base, 0x51ccc178},
		{"addresses", first, prm.RSSToeplitz, onlyIP, base, 0x323e8fc2},
		{"TCP", second, prm.RSSToeplitz, all, base, 0xc626b0ea},
		{"addresses", second, prm.RSSToeplitz, onlyIP, base, 0xd718262a},
		{"TCP over IPv6", six, prm.RSSToeplitz, all, base, 0x40207d3d},
		{"addresses of IPv6", six, prm.RSSToeplitz, onlyIP, base, 0x2cc18cd5},
		{"UDP", datagram, prm.RSSToeplitz, all, baseUDP, 0x51ccc178},
		{"UDP by addresses", datagram, prm.RSSToeplitz, onlyIP, base, 0x323e8fc2},
		{"no kind", first, prm.RSSToeplitz, 0, other, 0},
		{"XOR", flow{tcp, "1.2.4.8:256", "16.32.64.128:3"}, prm.RSSXOR, all, base, 0xff ^ 1 ^ 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newFrameQPs(t)
			b := p.b
			q := b.newQP(parent, prm.ServiceMLX, b.cq)
			path := prm.QPCPrimary.Bytes(q.context, prm.RSSOffset+prm.RSSBase.Layout.Size)
			prm.PathLinkType.Put(path, prm.PathLinkEthernet)
			prm.QPCRSS.Put(q.context, 1)
			r := path[prm.RSSOffset:]
			prm.RSSLogSize.Put(r, log)
			prm.RSSBase.Put(r, base)
			prm.RSSDefault.Put(r, other)
			prm.RSSBaseForUDP.Put(r, baseUDP)
			prm.RSSFunction.Put(r, tt.function)
			r[prm.RSSIPv4.Off] = byte(tt.kinds)
			copy(prm.RSSKey.Bytes(r, prm.RSSKeySize), msKey)
			want := tt.base
			if want != other {
				want += tt.hash & (1<<log - 1)
			}
			child := b.newFrameQP(want)
			q.start()
			b.steer(8, ethMAC(9), q.num)
			child.postRecv(dataSegment(recvBuffer, b.mr.key, b.mr.start))
			p.send(tt.flow.frame(ethMAC(9), p.a.mac, []byte("data")), ipChecksum|l4Checksum)
			e := b.cq.wait()
			requireCQE(t, e, want, false, prm.CQERecvSend)
			require.Equal(t, fmt.Sprintf("%#x", tt.hash), fmt.Sprintf("%#x", prm.CQEImmediate.Get(e)))
		})
	}
}

// TestLSOCapability checks that large sends are announced by all adapters.
func TestLSOCapability(t *testing.T) {
	c := newEthPeer(t, frame.NewHub(), 1, false).query(prm.CmdQueryDevCap, 0, 0)
	require.EqualValues(t, 17, prm.CapLogMaxGSO.Get(c))
	require.EqualValues(t, 1, prm.CapFlags.Get(c)>>prm.FlagBigLSO&1)
	a, _ := newPeers(t, prm.ServiceRC)
	c = a.query(prm.CmdQueryDevCap, 0, 0)
	require.EqualValues(t, 17, prm.CapLogMaxGSO.Get(c))
	require.EqualValues(t, 1, prm.CapFlags.Get(c)>>prm.FlagBigLSO&1)
}

// TestBadRSS checks that parents with invalid tables are rejected.
func TestBadRSS(t *testing.T) {
	p := newEthPeer(t, frame.NewHub(), 1, false)
	for _, set := range []func(r []byte){func(r []byte) { prm.RSSLogSize.Put(r, 8) },
		func(r []byte) { prm.RSSFunction.Put(r, 2) }} {
		q := p.newQP(0x340, prm.ServiceMLX, p.cq)
		path := prm.QPCPrimary.Bytes(q.context, prm.RSSOffset+prm.RSSBase.Layout.Size)
		prm.PathLinkType.Put(path, prm.PathLinkEthernet)
		prm.QPCRSS.Put(q.context, 1)
		set(path[prm.RSSOffset:])
		p.fill(func(b []byte) { copy(b[prm.QPContext.Off:], q.context) })
		s, _ := p.exec(prm.CmdRST2INIT, p.in.IOVA, q.num, 0, 0)
		require.Equal(t, prm.BadParam, s)
	}
}

// TestEthernetStats checks the counters of both sides of a link: sizes, kinds of addresses, priorities, octets, drops.
func TestEthernetStats(t *testing.T) {
	p := newFrameQPs(t)
	p.b.steer(8, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, p.qb.num)
	p.b.steer(9, [6]byte{1, 0, 0x5e, 0, 0, 1}, p.qb.num)
	p.postRecvs(5)
	const priority = 3
	octets := 0
	sizes := []int{60, 61, 600, 1514}
	for i, n := range sizes {
		f := make([]byte, n)
		copy(f, p.b.mac[:])
		switch i {
		case 1:
			copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		case 2:
			copy(f, []byte{1, 0, 0x5e, 0, 0, 1})
		}
		if i == 3 {
			p.qa.tagNext(priority<<13 | 5)
		} else {
			octets += n + 4
		}
		p.send(f, 0)
		p.received(i)
	}
	p.send(append([]byte{2, 9, 9, 9, 9, 9}, make([]byte, 60)...), 0) // to nobody
	read := func(d *ethPeer, mod uint32) func(off int) uint64 {
		b := bytes.Clone(d.query(prm.CmdDumpEthStats, mod, 0))
		return func(off int) uint64 { return binary.BigEndian.Uint64(b[off:]) }
	}
	const none = 8 * prm.EthUntagged
	sent := read(p.a, 1)
	got := read(p.b, 1)
	for off, want := range map[int]uint64{
		prm.EthRecvSizes + none:                                               1, // 64
		prm.EthRecvSizes + prm.EthRecvArray + none:                            1, // 65 to 127
		prm.EthRecvSizes + 4*prm.EthRecvArray + none:                          1, // 512 to 1023
		prm.EthRecvSizes + 6*prm.EthRecvArray + 8*priority:                    1, // 1519 to 1522
		prm.EthRecvUnicast + none:                                             1,
		prm.EthRecvUnicast + 8*priority:                                       1,
		prm.EthRecvBroadcast + none:                                           1,
		prm.EthRecvMulticast + none:                                           1,
		prm.EthRecvOctets + prm.EthUntagged*prm.EthTriple:                     uint64(octets + 3*20),
		prm.EthRecvOctets + prm.EthUntagged*prm.EthTriple + 8:                 uint64(octets),
		prm.EthRecvOctets + prm.EthUntagged*prm.EthTriple + 16:                uint64(octets),
		prm.EthRecvOctets + priority*prm.EthTriple + 16:                       1522,
		prm.EthRecvFrames + prm.EthUntagged*prm.EthTriple:                     3,
		prm.EthRecvFrames + priority*prm.EthTriple:                            1,
		prm.EthRecvFrames + priority*prm.EthTriple + 8:                        1,
		prm.EthRecvFrames + prm.EthUntagged*prm.EthTriple + 8:                 0,
		prm.EthSendFrames + prm.EthUntagged*prm.EthTriple:                     0,
		prm.EthRecvSizes + (len(prm.EthSizeLimits)+1)*prm.EthRecvArray + none: 0,
	} {
		assert.Equal(t, want, got(off), "receiver, %#x", off)
	}
	for off, want := range map[int]uint64{
		prm.EthSendFrames + prm.EthUntagged*prm.EthTriple:      4, // with the one that nobody takes
		prm.EthSendFrames + priority*prm.EthTriple:             1,
		prm.EthSendSizes + 6*prm.EthSendArray + 8*priority:     1,
		prm.EthSendBroadcast + none:                            1,
		prm.EthSendMulticast + none:                            1,
		prm.EthSendUnicast + none:                              2,
		prm.EthSendOctets + prm.EthUntagged*prm.EthTriple + 16: uint64(octets + 70),
		prm.EthRecvFrames + prm.EthUntagged*prm.EthTriple:      0,
	} {
		assert.Equal(t, want, sent(off), "sender, %#x", off)
	}

	// A frame without a buffer, one that does not fit, and one longer than the MTU.
	p.sendGiants(t)
	require.Eventually(t, func() bool {
		return prm.EthDropped.Get(p.b.query(prm.CmdDumpEthStats, 1, 0)) == 2
	}, waitTime, time.Millisecond)
	b := bytes.Clone(p.b.query(prm.CmdDumpEthStats, 1|1<<8, 0)) // and reset
	assert.EqualValues(t, 2, prm.EthDropped.Get(b))
	assert.EqualValues(t, 1, prm.EthDropOverflow.Get(b))
	assert.EqualValues(t, 1, prm.EthDropLength.Get(b))
	assert.EqualValues(t, 5, prm.EthGoodFrames.Get(b))
	giants := prm.EthRecvSizes + (len(prm.EthSizeLimits)+1)*prm.EthRecvArray + none
	assert.EqualValues(t, 3, binary.BigEndian.Uint64(b[giants:]))
	assert.Equal(t, make([]byte, prm.EthStatsSize), p.b.query(prm.CmdDumpEthStats, 1, 0)[:prm.EthStatsSize])
	assert.Equal(t, make([]byte, prm.EthStatsSize), p.a.query(prm.CmdDumpEthStats, 1|1<<12, 0)[:prm.EthStatsSize])
	for _, port := range []uint32{0, 2} {
		s, _ := p.b.exec(prm.CmdDumpEthStats, 0, port, 0, p.b.out.IOVA)
		assert.Equal(t, prm.BadParam, s)
	}

	// A port that is down sends nothing.
	p.a.imm(prm.CmdClosePort, 0, 1, 0)
	p.send(make([]byte, 60), 0)
	assert.EqualValues(t, 1, prm.EthSendDropped.Get(p.a.query(prm.CmdDumpEthStats, 1, 0)))
}

// sendGiants sends three frames that are longer than the receiver's MTU. One finds a receive buffer, one a buffer that
// is too short, and one none.
func (p *frameQPs) sendGiants(t *testing.T) {
	t.Helper()
	p.b.with(prm.CmdSetPort, prm.SetPortGeneral<<8|1, prm.SetPortModeEth, func(b []byte) {
		prm.GeneralMTU.Put(b, 1000)
	})
	f := append(append([]byte{}, p.b.mac[:]...), make([]byte, 1194)...)
	p.send(f, 0)
	p.received(4)
	p.qb.postRecv(dataSegment(100, p.b.mr.key, p.b.mr.start))
	p.send(f, 0)
	require.EqualValues(t, prm.SynLocalLength, prm.CQESyndrome.Get(p.b.cq.wait()))
	p.send(f, 0)
}
