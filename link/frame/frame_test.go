package frame

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/rvt"
	"ciddk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// macs are the addresses of the ports of a test.
var macs = [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}

// gids returns a table with an entry of each kind: RoCEv1, RoCEv2 over IPv4 and RoCEv2 over IPv6.
func gids(i int) []ci.GIDEntry {
	v4 := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).As16()
	v6 := netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1)).As16()
	return []ci.GIDEntry{{GID: LinkLocalGID(macs[i]), Type: ci.GIDRoCEv1}, {GID: v4, Type: ci.GIDRoCEv2},
		{GID: v6, Type: ci.GIDRoCEv2}, {GID: v6, Type: ci.GIDRoCEv1}}
}

// carriers are the ways to join two ports.
var carriers = map[string]func(t *testing.T) [2]Carrier{
	"hub": func(*testing.T) [2]Carrier {
		h := NewHub()
		return [2]Carrier{h.Join(), h.Join()}
	},
	"unixgram": func(t *testing.T) [2]Carrier {
		a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		return [2]Carrier{testenv.Must(Dgram("unixgram", a, b)), testenv.Must(Dgram("unixgram", b, a))}
	},
	"stream": func(t *testing.T) [2]Carrier {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		require.NoError(t, err)
		defer l.Close()
		a, err := net.Dial("unix", l.Addr().String())
		require.NoError(t, err)
		b, err := l.Accept()
		require.NoError(t, err)
		return [2]Carrier{Stream(a), Stream(b)}
	},
	"hubs over sockets": func(t *testing.T) [2]Carrier {
		a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		h := [2]*Hub{NewHub(), NewHub()}
		for i, c := range []Carrier{testenv.Must(Dgram("unixgram", a, b)), testenv.Must(Dgram("unixgram", b, a))} {
			disconnect, err := h[i].Connect(c, nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, disconnect()) })
		}
		return [2]Carrier{h[0].Join(), h[1].Join()}
	},
}

func open(t *testing.T, i int, c Carrier, resolve bool) *Port {
	t.Helper()
	p, err := New(Config{Carrier: c, MAC: macs[i], GIDs: gids(i), Resolve: resolve})
	require.NoError(t, err)
	return p
}

// TestOperations executes every operation of RC over each carrier and each kind of GID, with address resolution.
func TestOperations(t *testing.T) {
	for name, carriers := range carriers {
		for i, e := range gids(0) {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				c := carriers(t)
				a := linktest.Open(t, ci.RC, 1<<20, open(t, 0, c[0], true))
				b := linktest.Open(t, ci.RC, 1<<20, open(t, 1, c[1], true))
				a.GID, b.GID = uint16(i), uint16(i)
				linktest.ConnectBoth(a, b)
				// One packet waits while its address is resolved. More would be lost, and wait for a timeout.
				b.Recv(ci.RecvWR{})
				a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled})
				a.Poll(1)
				b.Poll(1)
				linktest.Exercise(t, a, b)
				assert.Equal(t, e.Type, a.Attr.GIDs[i].Type)
			})
		}
	}
}

// TestLoopback connects two QPs of one port: their frames do not leave it.
func TestLoopback(t *testing.T) {
	h := NewHub()
	a := linktest.Open(t, ci.RC, 1<<20, open(t, 0, h.Join(), false))
	other, err := a.PD.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: a.CQ, RecvCQ: a.CQ, QPCaps: ci.QPCaps{SendDepth: 1,
		RecvDepth: 1, SendSGE: 1, RecvSGE: 1}})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Destroy()) }()
	b := *a
	b.QP = other
	linktest.ConnectBoth(a, &b)
	linktest.Fill(a.Buf[:5000], 1)
	b.Recv(ci.RecvWR{ID: 2, SGL: a.SGE(10000, 5000)})
	a.Send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.SGE(0, 5000)})
	a.Poll(2)
	require.Equal(t, a.Buf[:5000], a.Buf[10000:15000])
}

// tapCarrier records the frames that a port sends.
type tapCarrier struct {
	deliver func([][]byte)
	frames  [][]byte
}

func (c *tapCarrier) Start(deliver func([][]byte), _ func(error)) error {
	c.deliver = deliver
	return nil
}

func (c *tapCarrier) Send(frames [][]byte) int {
	for _, f := range frames {
		c.frames = append(c.frames, bytes.Clone(f))
	}
	return 0
}

func (c *tapCarrier) Close() error { return nil }

func (c *tapCarrier) take() [][]byte {
	f := c.frames
	c.frames = nil
	return f
}

// rig is a port on a tapCarrier, in virtual time.
type rig struct {
	*Port
	tap   *tapCarrier
	got   *linktest.Collector
	clock *clock.Virtual
}

func newRig(t *testing.T, resolve bool) *rig {
	t.Helper()
	r := &rig{tap: new(tapCarrier), got: linktest.NewCollector(), clock: clock.NewVirtual(time.Hour)}
	r.Port = open(t, 0, r.tap, resolve)
	require.NoError(t, linktest.StartAt(r.Port, r.got, r.clock))
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, r.Close(), "idempotent")
	})
	return r
}

// write returns a packet for a route.
func write(rt rvt.Route) []rvt.Packet {
	return []rvt.Packet{{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, PKey: 0xffff, DestQP: 5, VA: 1,
		RKey: 2, DMALen: 2500, N: 3, MTU: 1024, Len: 2500, Payload: [][]byte{make([]byte, 1000), make([]byte, 1500)},
		Route: rt}}
}

// TestFrames checks the frames of each kind of GID against package wire, and that the port takes them back.
func TestFrames(t *testing.T) {
	types := []uint16{wire.EtherTypeRoCEv1, wire.EtherTypeIPv4, wire.EtherTypeIPv6, wire.EtherTypeRoCEv1}
	for i, want := range types {
		r := newRig(t, false)
		rt, err := r.Route(&ci.AVAttr{DMAC: macs[1], GRH: ci.GRH{DGID: gids(1)[i].GID, SGIDIndex: uint16(i),
			TrafficClass: 8, FlowLabel: 77}}, rvt.Flow{Local: 1, Remote: 5})
		require.NoError(t, err)
		assert.Equal(t, rvt.Addr{GID: gids(1)[i].GID}, rt.Peer())
		assert.Equal(t, gids(0)[i].GID, rt.(rvt.LocalRoute).Local())
		r.Send(write(rt))
		frames := r.tap.take()
		require.Len(t, frames, 3)
		for k, b := range frames {
			var f wire.Frame
			require.NoError(t, wire.ParseFrame(b, &f))
			require.NoError(t, f.CheckICRC())
			assert.Equal(t, wire.Ethernet{Src: macs[0], Dst: macs[1], EtherType: want}, f.Eth)
			assert.EqualValues(t, k, f.Packet.BTH.PSN)
			assert.EqualValues(t, 5, f.Packet.BTH.DestQP)
			if want == wire.EtherTypeIPv4 {
				assert.EqualValues(t, 8, f.IP4.TOS)
				assert.EqualValues(t, k+1, f.IP4.ID)
				assert.GreaterOrEqual(t, f.UDP.SrcPort, uint16(firstSource))
			}
		}
		// The other end.
		o := &rig{tap: new(tapCarrier), got: linktest.NewCollector()}
		o.Port = open(t, 1, o.tap, false)
		require.NoError(t, linktest.Start(o.Port, o.got))
		o.tap.deliver(frames)
		pkts := o.got.Taken()
		require.Len(t, pkts, 3)
		assert.Equal(t, rvt.Addr{GID: gids(0)[i].GID}, pkts[0].Src)
		assert.Equal(t, rvt.Addr{GID: gids(1)[i].GID}, pkts[0].Dst)
		assert.Equal(t, frames[0][wire.EthernetLen:][8:], o.EncodeFrame(rvt.Received, withID(&pkts[0], frames[0]))[8:])
		for bit := range 8 * len(frames[2]) {
			b := bytes.Clone(frames[2])
			b[bit/8] ^= 1 << (bit % 8)
			o.tap.deliver([][]byte{b})
			for _, p := range o.got.Taken() {
				require.Equal(t, pkts[2].Payload, p.Payload, "bit %d", bit)
				require.Equal(t, pkts[2].DestQP, p.DestQP, "bit %d", bit)
				require.Equal(t, pkts[2].PSN, p.PSN, "bit %d", bit)
			}
		}
		require.NoError(t, o.Close())
	}
}

// withID returns the packet. The frame's IPv4 identification and its consequences are set to those of EncodeFrame.
func withID(p *rvt.Packet, frame []byte) *rvt.Packet {
	if frame[12] == 0x08 {
		var f wire.Frame
		if wire.ParseFrame(frame, &f) == nil {
			f.IP4.ID, f.IP4.TTL, f.IP4.TOS = 0, defaultHops, 0
			copy(frame, wire.AppendFrame(nil, &f))
		}
	}
	return p
}

func TestRouteErrors(t *testing.T) {
	r := newRig(t, false)
	gid := func(s string) ci.GID { return netip.MustParseAddr(s).As16() }
	for _, tt := range []struct {
		name string
		av   ci.AVAttr
		flow rvt.Flow
		want string
	}{
		{"index", ci.AVAttr{GRH: ci.GRH{DGID: gids(1)[0].GID, SGIDIndex: 4}}, rvt.Flow{}, "source GID index 4"},
		{"zero", ci.AVAttr{}, rvt.Flow{}, "destination GID is zero"},
		{"families", ci.AVAttr{GRH: ci.GRH{DGID: gids(1)[1].GID, SGIDIndex: 2}}, rvt.Flow{}, "address families"},
		{"group", ci.AVAttr{GRH: ci.GRH{DGID: gid("ff02::5")}}, rvt.Flow{}, "multicast group"},
		{"unknown MAC", ci.AVAttr{GRH: ci.GRH{DGID: gid("fd00::9"), SGIDIndex: 2}}, rvt.Flow{}, "AVAttr.DMAC"},
	} {
		_, err := r.Route(&tt.av, tt.flow)
		assert.ErrorContains(t, err, tt.want, tt.name)
	}
	for gid, mac := range map[ci.GID][6]byte{
		gid("ff0e::1:2:3:4"):      {0x33, 0x33, 0, 3, 0, 4},
		gid("::ffff:239.129.2.3"): {1, 0, 0x5e, 1, 2, 3},
		gids(1)[0].GID:            macs[1],
		gids(0)[2].GID:            macs[0],
	} {
		index := uint16(2)
		if addrOf(gid).Is4() {
			index = 1
		}
		rt, err := r.Route(&ci.AVAttr{GRH: ci.GRH{DGID: gid, SGIDIndex: index}}, rvt.Flow{Datagram: true})
		require.NoError(t, err)
		assert.Equal(t, mac, rt.(*route).mac, "%v", addrOf(gid))
	}
}

func TestConfigErrors(t *testing.T) {
	_, err := New(Config{MAC: macs[0]})
	require.ErrorContains(t, err, "Carrier is nil")
	for want, c := range map[string]Config{
		"one station":       {MAC: [6]byte{1}},
		"MTU code 6":        {MAC: macs[0], MTU: 6},
		"Window -1":         {MAC: macs[0], Window: -1},
		"table of 129":      {MAC: macs[0], GIDs: make([]ci.GIDEntry, 129)},
		"entry 0 of the GI": {MAC: macs[0], GIDs: []ci.GIDEntry{{GID: ci.GID{1}}}},
	} {
		c.Carrier = new(tapCarrier)
		_, err := New(c)
		assert.ErrorContains(t, err, want)
	}
	_, err = Dgram("tcp", "", "")
	require.ErrorContains(t, err, `network "tcp"`)
	_, err = Dgram("unixgram", filepath.Join(t.TempDir(), "no", "dir"), "x")
	require.Error(t, err)
}

// TestRaw checks which frames are raw.
func TestRaw(t *testing.T) {
	r := newRig(t, false)
	var got [][]byte
	r.OnFrame(func(b []byte) { got = append(got, bytes.Clone(b)) })
	other := ethernet(macs[0], macs[1], 0x88b5, "hello")
	promiscuous := ethernet(macs[1], [6]byte{2, 9}, 0x88b5, "not for us")
	r.tap.deliver([][]byte{other, promiscuous})
	assert.Equal(t, [][]byte{other, promiscuous}, got)
	r.SendFrame(promiscuous)
	assert.Equal(t, [][]byte{promiscuous}, r.tap.take())

	r.SetLink(false)
	r.SendFrame(promiscuous)
	assert.Empty(t, r.tap.take(), "the cable is out")
	m := map[string]uint64{}
	r.AddCounters(m)
	assert.Equal(t, map[string]uint64{"frame_sent": 1, "frame_received": 2, "frame_raw": 2, "frame_send_dropped": 1,
		"frame_unresolved": 0}, m)
}

func ethernet(dst, src [6]byte, typ uint16, text string) []byte {
	h := wire.Ethernet{Dst: dst, Src: src, EtherType: typ}
	b := make([]byte, wire.EthernetLen)
	h.Put(b)
	return append(b, text...)
}

// TestResolve follows the resolution of IPv4 and IPv6 addresses: requests, retries, what waits, and what is dropped.
func TestResolve(t *testing.T) {
	for i := 1; i <= 2; i++ {
		t.Run(addrOf(gids(1)[i].GID).String(), func(t *testing.T) {
			r, peer := newRig(t, true), &rig{tap: new(tapCarrier), got: linktest.NewCollector()}
			peer.Port = open(t, 1, peer.tap, true)
			require.NoError(t, linktest.Start(peer.Port, peer.got))
			defer func() { require.NoError(t, peer.Close()) }()
			rt, err := r.Route(&ci.AVAttr{GRH: ci.GRH{DGID: gids(1)[i].GID, SGIDIndex: uint16(i)}},
				rvt.Flow{Local: 1, Remote: 5})
			require.NoError(t, err)

			// Nobody answers: three requests, then the packets are dropped.
			r.Send(write(rt))
			for range maxTries {
				require.Len(t, r.tap.take(), 1, "a request, and no packet")
				require.True(t, r.clock.Step())
			}
			assert.Empty(t, r.tap.take())
			m := map[string]uint64{}
			r.AddCounters(m)
			assert.EqualValues(t, 3, m["frame_unresolved"])

			// The peer answers: the packets follow.
			r.Send(write(rt))
			request := r.tap.take()
			require.Len(t, request, 1)
			peer.tap.deliver(request)
			reply := peer.tap.take()
			require.Len(t, reply, 1)
			assert.Equal(t, macs[0], [6]byte(reply[0]), "unicast")
			r.tap.deliver(reply)
			frames := r.tap.take()
			require.Len(t, frames, 3)
			assert.Equal(t, macs[1], [6]byte(frames[2]))

			// A request for another address has no answer, and a damaged one neither.
			for at := range request[0][wire.EthernetLen:] {
				b := bytes.Clone(request[0])
				b[wire.EthernetLen+at] ^= 0x10
				peer.tap.deliver([][]byte{b})
				for _, f := range peer.tap.take() {
					require.Less(t, at, 24, "byte %d", at)
					require.Len(t, f, len(reply[0]))
				}
			}

			// The address is confirmed again while it is used.
			r.clock.Advance(staleTime + 2*retryTime)
			r.Send(write(rt))
			require.Len(t, r.tap.take(), 4, "a request and the packets")
		})
	}
}

// TestHub checks what a hub forwards to whom.
func TestHub(t *testing.T) {
	h := NewHub()
	var got [3]chan string
	var m [3]Carrier
	for i := range m {
		m[i], got[i] = h.Join(), make(chan string, 10)
		require.NoError(t, m[i].Start(func(frames [][]byte) {
			for _, f := range frames {
				got[i] <- string(f[wire.EthernetLen:])
			}
		}, nil))
	}
	mac := func(i int) [6]byte { return [6]byte{2, byte(i)} }
	send := func(to [6]byte, from int, text string) {
		require.Zero(t, m[from].Send([][]byte{ethernet(to, mac(from), 0x88b5, text)}))
	}
	send(mac(1), 0, "unknown")
	assert.Equal(t, "unknown", <-got[1])
	assert.Equal(t, "unknown", <-got[2])
	send(mac(0), 1, "known")
	assert.Equal(t, "known", <-got[0])
	send(allStations, 0, "all")
	assert.Equal(t, "all", <-got[1])
	assert.Equal(t, "all", <-got[2], "and not the frame for member 0 before")
	assert.Equal(t, 1, m[0].Send([][]byte{{1, 2, 3}}), "too short")
	require.NoError(t, m[1].Close())
	require.NoError(t, m[1].Close(), "idempotent")
	send(mac(1), 0, "to all again")
	assert.Equal(t, "to all again", <-got[2])
	require.NoError(t, m[0].Close())
	require.NoError(t, m[2].Close())
	assert.Equal(t, 1, m[2].(*member).in.put([][]byte{{1}}), "closed")
}

// TestQueueLimit checks that a queue whose reader does not return is bounded in bytes.
func TestQueueLimit(t *testing.T) {
	q := newQueue()
	release, busy := make(chan struct{}), make(chan struct{}, 10)
	q.start(func([][]byte) { busy <- struct{}{}; <-release })
	big := [][]byte{make([]byte, MaxFrame)}
	require.Zero(t, q.put(big))
	<-busy
	for range maxQueue / MaxFrame {
		require.Zero(t, q.put(big))
	}
	require.Equal(t, 1, q.put(big))
	require.Equal(t, 2, q.put([][]byte{nil, make([]byte, MaxFrame+1)}), "no frames")
	close(release)
	q.close()
}

// TestStreamErrors checks that a stream with a bad length fails, which takes a port down.
func TestStreamErrors(t *testing.T) {
	for _, text := range []string{"\x00\x00\x00\x00", "\x00\x01\x00\x00", "\xff\xff\xff\xff", ""} {
		a, b := net.Pipe()
		p := open(t, 0, Stream(a), false)
		got := linktest.NewCollector()
		require.NoError(t, linktest.Start(p, got))
		_, err := b.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		got.Wait(t, "the port is down", func(c *linktest.Collector) bool {
			return len(c.Events) == 1 && c.Events[0] == ci.EventPortDown
		})
		require.NoError(t, p.Close())
	}
}

func TestGroups(t *testing.T) {
	r := newRig(t, false)
	group := ci.GID(netip.MustParseAddr("ff0e::5").As16())
	require.Error(t, r.JoinGroup(gids(1)[0].GID), "not a group")
	require.Error(t, r.LeaveGroup(group), "not joined")
	require.NoError(t, r.JoinGroup(group))
	require.NoError(t, r.JoinGroup(group))
	require.True(t, r.isMember(group))
	require.NoError(t, r.LeaveGroup(group))
	require.NoError(t, r.LeaveGroup(group))
	require.False(t, r.isMember(group))
}

// FuzzFrame passes arbitrary frames to a port that resolves.
func FuzzFrame(f *testing.F) {
	for i := range 4 {
		tap := new(tapCarrier)
		p, err := New(Config{Carrier: tap, MAC: macs[1], GIDs: gids(1), Resolve: true})
		require.NoError(f, err)
		require.NoError(f, linktest.Start(p, linktest.NewCollector()))
		rt, err := p.Route(&ci.AVAttr{DMAC: macs[0], GRH: ci.GRH{DGID: gids(0)[i].GID, SGIDIndex: uint16(i)}},
			rvt.Flow{})
		require.NoError(f, err)
		p.Send(write(rt))
		p.arp.request(addrOf(gids(0)[i].GID))
		for _, b := range tap.take() {
			f.Add(b)
		}
		require.NoError(f, p.Close())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t, true)
		raw := 0
		r.OnFrame(func([]byte) { raw++ })
		r.tap.deliver([][]byte{b})
		for _, p := range r.got.Taken() {
			require.True(t, r.takes(p.Dst.GID, ci.GIDRoCEv1) || r.takes(p.Dst.GID, ci.GIDRoCEv2))
			require.NotNil(t, r.EncodeFrame(rvt.Received, &p))
		}
		for _, f := range r.tap.take() {
			require.GreaterOrEqual(t, len(f), wire.EthernetLen)
		}
	})
}

// FuzzStream reads arbitrary bytes as a stream of frames.
func FuzzStream(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x01c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, in := bytes.NewReader(b), new(batch)
		for readFrame(r, in) == nil {
		}
		total := 0
		for _, f := range in.frames() {
			require.NotEmpty(t, f)
			total += 4 + len(f)
		}
		require.LessOrEqual(t, total, len(b))
	})
}

// A lamp is a carrier that shows whether the link is up.
type lamp struct {
	tapCarrier
	shown []bool
}

func (l *lamp) SetLink(up bool) { l.shown = append(l.shown, up) }

// TestLinkCarrier checks what a carrier shows its other side: the link of its port, and on a hub whether any other
// member has one. It hears of changes only.
func TestLinkCarrier(t *testing.T) {
	l := new(lamp)
	p := open(t, 0, l, false)
	for _, up := range []bool{true, false, false, true, true} {
		p.SetLink(up)
	}
	require.NoError(t, p.Close())
	assert.Equal(t, []bool{false, true}, l.shown)

	h, l := NewHub(), new(lamp)
	disconnect, err := h.Connect(l, nil)
	require.NoError(t, err)
	assert.Equal(t, []bool{false}, l.shown, "alone")
	var ports [2]*Port
	for i := range ports {
		ports[i] = open(t, i, h.Join(), false)
		require.NoError(t, ports[i].Start(rvt.PortContext{Receiver: linktest.NewCollector()}))
	}
	assert.Equal(t, []bool{false, true}, l.shown)
	ports[0].SetLink(false)
	assert.Equal(t, []bool{false, true}, l.shown, "the other one is up")
	ports[1].SetLink(false)
	ports[0].SetLink(true)
	require.NoError(t, ports[0].Close())
	assert.Equal(t, []bool{false, true, false, true, false}, l.shown)
	other, err := h.Connect(new(tapCarrier), nil)
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true, false, true, false, true}, l.shown, "a carrier that shows nothing is up")
	require.NoError(t, other())
	require.NoError(t, disconnect())
	require.NoError(t, ports[1].Close())
	assert.Equal(t, []bool{false, true, false, true, false, true, false}, l.shown)
}
