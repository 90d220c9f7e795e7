package rvt

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// Packets that a peer or a third party should not have sent, and how a QP takes them.

// TestPartitionZero checks that a QP whose P_Key has been removed from the table receives nothing, not even packets
// with the invalid key 0x8000.
func TestPartitionZero(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			l := &wireLink{mtu: ci.MTU1024}
			port := l.port()
			keys := []ci.PKey{0xffff}
			port.attr = func(a *ci.PortAttr) { a.PKeys = keys }
			s := newSideOn(t, []*linkPort{port}, 0xa, nil, plainRings{}, typ, nil)
			s.connect(s, nil)
			s.recv(ci.RecvWR{SGL: s.sge(0, 64)}, ci.RecvWR{SGL: s.sge(0, 64)})
			send := func(key ci.PKey) {
				receiverOf(s.hca, 0).Deliver([]Packet{{Service: services[typ], Op: wire.OpSend, Start: true, End: true,
					PSN: s.qp.(*QP).resp.psn, N: 1, MTU: 1024, PKey: key, QKey: 0x1234, DestQP: s.qp.Num(),
					Src: Addr{LID: s.lid}, MigReq: true}}, true, false)
			}
			send(0xffff)
			require.Len(t, s.poll(), 1)
			for _, table := range [][]ci.PKey{{0}, {0x8000}, {}} {
				keys = table
				receiverOf(s.hca, 0).PortEvent(ci.EventPKeyChange)
				for _, k := range []ci.PKey{0, 0x8000, 0xffff, 0x7fff} {
					send(k)
				}
				require.Empty(t, s.poll())
			}
			require.EqualValues(t, 12, s.hca.count[DropPKey].Load())
			keys = []ci.PKey{0x7fff}
			receiverOf(s.hca, 0).PortEvent(ci.EventPKeyChange)
			send(0xffff)
			require.Len(t, s.poll(), 1)
		})
	}
}

// TestReservedSyndromes checks that an acknowledgement with a syndrome of a reserved class acknowledges nothing (IBTA
// volume 1, 9.7.5.2.1), and that the QP goes on.
func TestReservedSyndromes(t *testing.T) {
	for syn := range 256 {
		s := wire.Syndrome(syn)
		if s.IsACK() || s.IsRNRNAK() || s.IsNAK() {
			continue
		}
		x := newRequesterRig(t, wire.RC, Hints{})
		x.post(x.sendWR(1, 8), x.sendWR(2, 8))
		x.ack(1, s)
		require.Empty(t, x.poll(), "%#x", syn)
		require.Zero(t, x.errors)
		require.Equal(t, 1, x.count(DropResponse))
		x.ack(1, wire.ACK(0))
		require.Equal(t, []ci.WCStatus{ci.WCSuccess, ci.WCSuccess}, x.statuses())
	}
}

// TestDuplicateAfterWrap checks that an atomic that is repeated has its own answer, and not that of an atomic with the
// same PSN 2^24 packets earlier. Few requests lie between them if these are long READs.
func TestDuplicateAfterWrap(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.e.attr.RespRes = 4
	add := x.remote(wire.OpFetchAdd, 0, 0, 8)
	add.Swap = 1
	answer := func() uint64 {
		t.Helper()
		x.request(add)
		p := x.oneSent()
		require.Equal(t, wire.OpAtomicAcknowledge, p.Op)
		require.Equal(t, add.PSN, p.PSN)
		return p.Swap
	}
	wrap := func() { x.r.psn = add.PSN } // as READs of 2^24 packets do
	binary.NativeEndian.PutUint64(x.buf, 40)
	for want := range uint64(10) {
		if want == 5 {
			x.e.attr.RespRes = 7 // changed in SQD, and rounded up
		}
		require.Equal(t, 40+want, answer())
		require.Equal(t, 40+want, answer(), "repeated")
		wrap()
	}
	require.Len(t, x.r.hist, 8)
}

// TestTrainOfOtherMTU checks that packets of another size than the path's MTU have the same effect whether a port joins
// them to a train or not.
func TestTrainOfOtherMTU(t *testing.T) {
	for _, tt := range []struct {
		name string
		typ  ci.QPType
		mtu  uint32
		lens []uint32
		read bool // they answer a READ
	}{
		{"short", ci.RC, 512, []uint32{512, 512, 100}, false},
		{"long", ci.RC, 2048, []uint32{2048, 2048}, false},
		{"short", ci.UC, 512, []uint32{512, 512, 100}, false},
		{"long", ci.UC, 2048, []uint32{2048, 1}, false},
		{"short response", ci.RC, 512, []uint32{512, 512}, true},
		{"long response", ci.RC, 2048, []uint32{2048, 4}, true},
	} {
		t.Run(tt.name+" "+tt.typ.String(), func(t *testing.T) {
			type outcome struct {
				state   ci.QPState
				sent    []wire.Syndrome
				wcs     []ci.WCStatus
				written byte
			}
			run := func(joined bool) (o outcome) {
				_, r, _ := rawPair(t, &wireLink{}, tt.typ, nil)
				if tt.read {
					r.side.send(ci.SendWR{Op: ci.OpRead, SGL: r.side.sge(0, 8192)})
					require.Len(t, r.take(), 1)
				} else {
					r.side.recv(ci.RecvWR{SGL: r.side.sge(0, 8192)})
				}
				var list []Packet
				for k, n := range tt.lens {
					data := make([]byte, n)
					data[0] = 1
					p := Packet{Op: wire.OpSend, Start: k == 0, End: k == len(tt.lens)-1, PSN: psnAt(k),
						Payload: [][]byte{data}}
					if tt.read {
						p.Op = wire.OpReadResponse
					}
					list = append(list, p)
				}
				if joined {
					one := list[0]
					one.N, one.End = uint32(len(list)), true
					for _, p := range list[1:] {
						one.Payload = append(one.Payload, p.Payload...)
					}
					list = []Packet{one}
				}
				r.sayOf(tt.mtu, list...)
				o.state = r.side.qp.(*QP).current()
				for _, p := range r.take() {
					if p.Op == wire.OpAcknowledge {
						o.sent = append(o.sent, p.Syndrome)
					}
				}
				for _, wc := range r.side.poll() {
					o.wcs = append(o.wcs, wc.Status)
				}
				o.written = r.side.buf[0]
				return o
			}
			single := run(false)
			assert.Equal(t, single, run(true))
			assert.Equal(t, tt.typ == ci.RC, single.state == ci.QPError, "%+v", single)
		})
	}
}

// TestWrongDestination checks that a connected QP drops packets of its peer that are addressed to another GID of its
// port, or to a multicast group.
func TestWrongDestination(t *testing.T) {
	own, other, group := ci.GID{0xfe, 15: 1}, ci.GID{0xfe, 15: 2}, ci.GID{0xff, 15: 1}
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		t.Run(typ.String(), func(t *testing.T) {
			_, r, _ := rawPair(t, &wireLink{}, typ, nil)
			q := r.side.qp.(*QP)
			q.local = localGID(&gidRoute{gid: own})
			r.side.recv(ci.RecvWR{}, ci.RecvWR{}, ci.RecvWR{})
			n := 0
			for _, to := range []struct {
				gid   ci.GID
				taken bool
			}{{other, false}, {group, false}, {own, true}, {ci.GID{}, true}, {other, false}} {
				p := sendPkt(n, "")
				p.Payload, p.Dst.GID = nil, to.gid
				r.say(p)
				want := 0
				if to.taken {
					want, n = 1, n+1
				}
				require.Len(t, r.side.poll(), want, "%x", to.gid)
			}
			require.EqualValues(t, 3, q.origin.count.WrongAddress)
			require.EqualValues(t, 3, r.side.hca.count[DropSource].Load())
		})
	}
}

// A gidRoute is a LocalRoute.
type gidRoute struct {
	linkRoute
	gid ci.GID
}

func (r *gidRoute) Local() ci.GID { return r.gid }
