package lnd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/mlx4"
	card "ciddk/hca/mlx4/model"
	"ciddk/hca/reference"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// Both nodes connect at the same time, again and again: each operation succeeds, and afterwards there is a connection.
func TestSimultaneousConnects(t *testing.T) {
	races := 0
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			network := newNetwork()
			a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
			nodes := []*Node{a.node(Config{}), b.node(Config{})}
			var wg sync.WaitGroup
			for i, n := range nodes {
				wg.Go(func() {
					_, err := n.Ping(t.Context(), nodes[1-i].nid)
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			races += int(nodes[0].Stats()["rejected by the peer: race"])
			require.Zero(t, nodes[1].Stats()["rejected by the peer: race"], "the higher NID wins")
			require.NotEmpty(t, nodes[0].Peers())
			require.NotEmpty(t, nodes[1].Peers())
		})
	}
	t.Log(races, "races")
}

// TestAdmit has the decisions of the passive end about valid requests.
func TestAdmit(t *testing.T) {
	n := must(newNode(Config{Addr: netip.MustParseAddr("10.0.0.2")}, 5))
	low, high := must(ParseNID("10.0.0.1@o2ib")), must(ParseNID("10.0.0.3@o2ib"))
	req := &header{FromStamp: 1, Version: version2}
	require.Zero(t, n.admit(low, req))
	n.admitted(low)
	require.Empty(t, n.peers, "an entry that is not needed any more is removed")

	n.peer(low).dialing = &dialing{done: make(chan struct{})}
	n.peer(high).dialing = &dialing{done: make(chan struct{})}
	require.Zero(t, n.admit(high, req), "the higher NID wins")
	for range maxRaces {
		require.Equal(t, WhyRace, n.admit(low, req))
	}
	require.Zero(t, n.admit(low, req), "after so many races, something is wrong with this end's attempt")

	ctx, cancel := context.WithCancelCause(context.Background())
	c := &conn{n: n, peer: high, stamp: 1, ctx: ctx, cancel: cancel,
		format: n.format(version2), over: make(chan struct{})}
	n.established(c, "accepted")
	require.Zero(t, n.admit(high, req), "another connection")
	require.Equal(t, WhyStale, n.admit(high, &header{FromStamp: 2, Version: version2}))
	require.ErrorIs(t, context.Cause(ctx), errStale)
	c.err = errStale
	n.ended(c)
	require.Zero(t, n.admit(high, &header{FromStamp: 2, Version: version2}))

	p := n.peer(high)
	p.accepts = maxPeerConns
	require.Equal(t, WhyResources, n.admit(high, &header{FromStamp: 2, Version: version2}))
	p.accepts = maxConns - n.peer(low).accepts
	other := high + 1
	require.Equal(t, WhyResources, n.admit(other, req), "all peers together")
	p.accepts--
	require.Zero(t, n.admit(other, req))
	require.NoError(t, n.Close())
	require.ErrorContains(t, n.goUnlessClosed(nil), "closed")
}

// A node that was restarted is recognized, whichever end connects first. The old connection ends.
func TestRestart(t *testing.T) {
	for _, first := range []int{0, 1} {
		t.Run(fmt.Sprint("node ", first, " connects"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network, dead := mortalNetwork()
				a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
				na, nb := a.node(Config{}), b.node(Config{})
				_, err := na.Ping(t.Context(), nb.nid)
				require.NoError(t, err)
				dead.Store(true) // as a machine without power
				require.NoError(t, nb.Close())
				dead.Store(false)
				time.Sleep(time.Second)
				nodes := []*Node{na, b.node(Config{})}
				for range 3 {
					if _, err = nodes[first].Ping(t.Context(), nodes[1-first].nid); err == nil {
						break
					}
					time.Sleep(time.Minute) // until the transport reports that the old connection is dead
				}
				require.NoError(t, err)
				require.Equal(t, nodes[1].stamp, na.Peers()[0].Stamp)
				require.NotEqual(t, nb.stamp, nodes[1].stamp)
			})
		})
	}
}

// An oddPeer is a peer that speaks the protocol in another format, with RDMA into memory in pieces. It has no
// connection of its own: a test reads and sends its messages.
type oddPeer struct {
	t  *testing.T
	id *cmid.ID
	c  *conn // for encoding and its memory
}

// dialOdd connects to a node in a format.
func dialOdd(t *testing.T, h *host, to *Node, f format, p params) *oddPeer {
	n := must(newNode(Config{Addr: h.addr}, 42))
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	o := &oddPeer{t: t, c: n.newConn(to.nid, f.version, p)}
	o.c.format = f
	req := message{header: header{Type: connReq, From: n.nid, FromStamp: n.stamp, To: to.nid}, params: p}
	_, err := h.m.IDs().Dial(limit(t), netip.AddrPortFrom(to.nid.Addr(), 987), cmid.DialConfig{QP: qpConfig(p),
		Conn:  cmid.ConnParam{Private: req.append(nil, f), ResponderResources: -1, InitiatorDepth: -1},
		Setup: o.c.setup})
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.c.close() })
	ack, err := checkReply(o.c.id.Reply(), &req, f.version)
	require.NoError(t, err)
	o.c.agree(ack.FromStamp, ack.params)
	o.id = o.c.id
	return o
}

// send sends a message.
func (o *oddPeer) send(m message) {
	o.c.push(nil, nil, m)
	require.NoError(o.t, o.c.send2())
}

// send2 sends what may be sent, for a connection that does not run.
func (c *conn) send2() error {
	c.stalled = time.NewTimer(time.Hour)
	defer c.stalled.Stop()
	return c.send()
}

// recv returns the next message.
func (o *oddPeer) recv() message {
	for {
		var wc [1]ci.WC
		k, err := o.id.RecvCQ().Wait(limit(o.t), wc[:])
		require.NoError(o.t, err)
		if k == 0 {
			continue
		}
		require.NoError(o.t, wc[0].Err())
		i := int(wc[0].ID >> wrBits)
		if wc[0].ID&(1<<wrBits-1) == wrSend {
			s := o.c.sending[i]
			o.c.sending[i] = nil
			o.c.flow.sent(s)
			continue
		}
		m, err := o.c.expect(o.c.mem[(len(o.c.sending)+i)*msgSize:][:wc[0].Length])
		require.NoError(o.t, err)
		m.payload = bytes.Clone(m.payload)
		require.NoError(o.t, o.c.postRecv(i))
		return m
	}
}

// Peers of both versions and byte orders, with and without checksums and with memory in many pieces, read and write.
func TestOddPeers(t *testing.T) {
	for _, f := range formats() {
		t.Run(fmt.Sprintf("%v, version %#x, checksums %v", f.order, f.version, f.checksum), func(t *testing.T) {
			network := newNetwork()
			a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
			s := newStore()
			const size, pieces = 100_000, 250
			s.data[1] = random(1, size)
			tun := DefaultTunables()
			tun.Cksum = 1
			nb := b.nodeWith(Config{Tunables: &tun}, s)
			o := dialOdd(t, a, nb, f, params{Depth: 8, Frags: pieces, MsgSize: msgSize})

			h := Target{Portal: pingPortal, Match: pingMatch}.header(lnetGet, 272)
			h.Handle = handle{1, 2}
			o.send(message{header: header{Type: immediate}, lnet: h})
			m := o.recv()
			require.Equal(t, immediate, m.Type)
			require.Equal(t, f.version, m.Version, "the version of the requester")
			require.NotZero(t, m.Checksum)
			require.Equal(t, h.Handle, m.lnet.Handle)
			require.Equal(t, nb.info(), must(parsePing(m.payload)))

			// A GET to memory in pieces, of which each second one is not part of it.
			mem := make([]byte, 2*size)
			pd := must(o.id.PD())
			mr := must(pd.NewMR(ci.MRCreate{Memory: ci.Bytes(mem), Access: ci.LocalWrite | ci.RemoteWrite}))
			defer func() { require.NoError(t, errors.Join(o.id.Close(), mr.Destroy())) }()
			w := where{key: uint32(mr.Region().RKey)}
			const each = size / pieces
			for i := range pieces {
				w.frags = append(w.frags, frag{each, mr.Region().Addr + uint64(2*i*each)})
			}
			o.send(message{header: header{Type: getReq}, cookie: 7, lnet: target(1).header(lnetGet, size), where: w})
			m = o.recv()
			require.Equal(t, getDone, m.Type)
			require.Equal(t, cookie(7), m.cookie)
			require.EqualValues(t, size, m.status)
			for i := range pieces {
				require.Equal(t, s.data[1][i*each:(i+1)*each], mem[2*i*each:(2*i+1)*each])
				require.Equal(t, make([]byte, each), mem[(2*i+1)*each:(2*i+2)*each])
			}

			// A PUT.
			h = target(2).header(lnetPut, size)
			h.Handle = handle{3, 4}
			o.send(message{header: header{Type: putReq}, cookie: 8, lnet: h})
			m = o.recv()
			require.Equal(t, putAck, m.Type)
			require.Equal(t, cookie(8), m.cookie)
			wr := ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{mr.Region().SGE(0, size)},
				Remote: ci.Remote{Addr: m.where.frags[0].Addr, RKey: ci.Key(m.where.key)}}
			o.c.push(nil, []ci.SendWR{wr}, message{header: header{Type: putDone}, cookie: m.sinkCookie})
			require.NoError(t, o.c.send2())
			m = o.recv()
			require.Equal(t, immediate, m.Type)
			require.EqualValues(t, lnetAck, m.lnet.Op)
			require.Equal(t, handle{3, 4}, m.lnet.Handle)
			require.EqualValues(t, size, m.lnet.Words[0])
			require.Equal(t, mem[:size], s.read(2))
		})
	}
}

// A peer sends bytes that are no message. It loses its connection, and the other one goes on.
func TestGarbage(t *testing.T) {
	network := newNetwork()
	a, b, c := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil),
		newHost(t, network, "10.0.0.3", 0, nil)
	s := newStore()
	nb, good := b.nodeWith(Config{}, s), c.node(Config{})
	ctx := limit(t)
	require.Equal(t, 10, must(good.Put(ctx, nb.nid, target(1), random(1, 10))))
	for i, n := range []int{0, 1, 47, 48, 4096} {
		o := dialOdd(t, a, nb, plain, nb.most())
		copy(o.c.mem, random(uint64(i), n))
		_, err := o.id.QP().PostSend([]ci.SendWR{{Op: ci.OpSend, SGL: o.c.sgl(0, n)}})
		require.NoError(t, err)
		<-o.id.Done()
		require.ErrorIs(t, o.id.Err(), rdmacm.ErrPeerDisconnected)
		require.EqualValues(t, i+1, nb.Stats()["connections ended: invalid message"])
		require.NoError(t, o.c.close())
	}
	require.Equal(t, 10, must(good.Get(ctx, nb.nid, target(1), make([]byte, 10))))
	require.EqualValues(t, 1, good.Stats()["connections dialed"])
	require.Len(t, nb.Peers(), 1)
}

// The node moves as many messages with a peer of version 1 as with another, and connects to it again in its version.
func TestVersion1(t *testing.T) {
	network := newNetwork()
	a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
	s := newStore()
	na, nb := a.node(Config{}), b.nodeWith(Config{}, s)
	na.peer(nb.nid).version = version1 // as after a rejection
	ctx := limit(t)
	for i := range 50 {
		require.Equal(t, 100, must(na.Put(ctx, nb.nid, target(uint64(i)), random(1, 100))))
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := na.Put(ctx, nb.nid, target(uint64(i)), random(1, 10000*(i%2)+100))
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	require.EqualValues(t, version1, nb.Peers()[0].Version)
	require.EqualValues(t, 10, nb.Stats()["received: PUT_REQ"], "data that fit into no message")
	require.EqualValues(t, 10, nb.Stats()["sent: PUT_ACK"])
}

// An adapter without fast registration uses memory regions.
func TestNoFastRegistration(t *testing.T) {
	network := newNetwork()
	slow := ciwrap.Layer{PD: func(in ci.PD, _ ci.PDType) ci.PD { return slowPD{ciwrap.PD{PD: in}} }}
	a := newHostWith(t, network, "10.0.0.1", slow)
	b := newHost(t, network, "10.0.0.2", 0, nil)
	sa, sb := newStore(), newStore()
	na, nb := a.nodeWith(Config{}, sa), b.nodeWith(Config{}, sb)
	ctx := limit(t)
	for from, to := range map[*Node]*Node{na: nb, nb: na} {
		into := make([]byte, 1<<20)
		require.Equal(t, 1<<20, must(from.Put(ctx, to.nid, target(1), random(2, 1<<20))))
		require.Equal(t, 1<<20, must(from.Get(ctx, to.nid, target(1), into)))
		require.Equal(t, random(2, 1<<20), into)
	}
}

type slowPD struct{ ciwrap.PD }

func (slowPD) AllocFastRegMR(int) (ci.MR, error) {
	return nil, &ci.Error{Verb: "PD.AllocFastRegMR", Status: ci.Unsupported}
}

// openReference and openMLX4 open adapters on an InfiniBand link: the software adapter, and the ConnectX-3 driver on
// its model.
func openReference(t *testing.T, link rvt.Port) ci.HCA {
	h := must(reference.New(reference.Config{Ports: []rvt.Port{link}}))
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return h
}

func openMLX4(t *testing.T, link rvt.Port) ci.HCA {
	m := must(card.New(card.Config{Ports: []card.PortConfig{{Link: link}}}))
	f := local.New(m, t.Name())
	h, err := mlx4.New(t.Context(), f, mlx4.Config{Firmware: fw.Config{ResetDelay: time.Nanosecond}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(h.Close(), f.Close(), m.Close())) })
	return h
}

// Nodes on an InfiniBand subnet have GIDs as addresses. A peer whose name does not belong to its GID is rejected.
func TestInfiniBand(t *testing.T) {
	t.Run("software adapters", func(t *testing.T) { testInfiniBand(t, openReference) })
	t.Run("ConnectX-3", func(t *testing.T) { testInfiniBand(t, openMLX4) })
}

func testInfiniBand(t *testing.T, open func(*testing.T, rvt.Port) ci.HCA) {
	link, table, nids := direct.NewLink(), map[NID]netip.Addr{}, []NID{nidA, nidB}
	var hosts []*host
	var ports []ci.PortAttr
	paths := []map[netip.Addr]cm.Path{{}, {}}
	for i := range nids {
		h := &host{t: t, al: accesslayer.New(accesslayer.Config{})}
		hca := open(t, testenv.Must(direct.New(link, direct.Config{})))
		t.Cleanup(func() { assert.NoError(t, h.al.Close()) })
		require.NoError(t, h.al.Register(hca))
		h.m = must(rdmacm.Open(h.al, rdmacm.OpenConfig{Resolver: &resolve.Static{AL: h.al, Paths: paths[i]}}))
		t.Cleanup(func() { assert.NoError(t, h.m.Close()) })
		require.NoError(t, h.al.WaitPnP(limit(t)))
		p := h.al.Adapters()[0].Attr().Ports[0]
		h.addr = netip.AddrFrom16(p.GIDs[0].GID)
		hosts, ports = append(hosts, h), append(ports, p)
		table[nids[i]] = h.addr
	}
	for i, h := range hosts {
		peer := ports[1-i]
		paths[i][hosts[1-i].addr] = cm.Path{Port: mads.Port{CA: h.al.Adapters()[0].GUID(), Num: 1},
			AV: ci.AVAttr{Port: 1, DLID: peer.LID, Global: true, GRH: ci.GRH{DGID: peer.GIDs[0].GID, HopLimit: 1}}}
	}
	s := newStore()
	var nodes []*Node
	for i, h := range hosts {
		nodes = append(nodes, h.nodeWith(Config{NID: nids[i], AddrOf: func(n NID) netip.Addr { return table[n] }}, s))
	}
	for i, n := range nodes {
		require.Equal(t, 1<<20, must(n.Put(limit(t), nids[1-i], target(1), random(uint64(i), 1<<20))))
		require.Equal(t, random(uint64(i), 1<<20), s.read(1))
	}
	require.NoError(t, nodes[1].Close())
	liar := hosts[1].nodeWith(Config{NID: nidB + 1, AddrOf: func(n NID) netip.Addr { return table[n] }}, s)
	_, err := liar.Ping(limit(t), nidA)
	var r *Reject
	require.ErrorAs(t, err, &r)
	require.Equal(t, WhyFatal, r.Why)
}

// Several connections to a peer are used in turn.
func TestConnsPerPeer(t *testing.T) {
	network := newNetwork()
	a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
	tun := DefaultTunables()
	tun.ConnsPerPeer = 3
	na, nb := a.node(Config{Tunables: &tun}), b.node(Config{})
	ctx := limit(t)
	require.Eventually(t, func() bool {
		_, err := na.Ping(ctx, nb.nid)
		return assert.NoError(t, err) && na.Peers()[0].Connections == 3
	}, time.Minute, time.Millisecond)
	for range 10 {
		_, err := na.Ping(ctx, nb.nid)
		require.NoError(t, err)
	}
	require.Equal(t, 3, na.Peers()[0].Connections)
}

// After a discovery, each node has what the other one says about itself.
func TestDiscover(t *testing.T) {
	na, nb, _ := pair(t, newNetwork(), Config{}, nil)
	info, err := na.Discover(limit(t), nb.nid)
	require.NoError(t, err)
	require.Equal(t, nb.info(), info)
	require.Equal(t, na.info(), *nb.Peers()[0].Info)
}

func TestParsePing(t *testing.T) {
	want := PingInfo{Features: 0x1e, PID: 12345,
		NIs: []NI{{NID: loopback << 48, Status: 1}, {NID: nidA, Status: StatusUp}}}
	b := want.encode()
	require.Equal(t, want, must(parsePing(b)))
	cut := must(parsePing(b[:len(b)-1]))
	require.Len(t, cut.NIs, 1)
	for _, bad := range [][]byte{nil, b[:15], append([]byte{1}, b...)} {
		_, err := parsePing(bad)
		require.ErrorIs(t, err, ErrMessage)
	}
	big := binary.BigEndian.AppendUint32(nil, pingMagic)
	for _, v := range []uint32{0x1e, 12345, 1 << 31} {
		big = binary.BigEndian.AppendUint32(big, v)
	}
	require.Equal(t, PingInfo{Features: 0x1e, PID: 12345, NIs: []NI{}}, must(parsePing(big)))
}
