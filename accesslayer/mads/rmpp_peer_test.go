package mads_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// rawPeer is an RMPP peer that the test controls packet by packet. It is an agent without RMPP.
type rawPeer struct {
	t  *testing.T
	a  mads.Agent
	to mads.Address
}

func newRawPeer(t *testing.T, n, other *node) *rawPeer {
	return &rawPeer{t, n.agent(mads.AgentConfig{Name: "raw", Class: long, Version: 1, OUI: oui,
		Methods: []mad.Method{mad.Get, mad.Set}, Queue: 4096}), other.address()}
}

func (p *rawPeer) send(m mad.Method, tid uint64, r mad.RMPP, data ...byte) {
	b := message(m, tid, perSegment)
	if r.Version == 0 {
		r.Version = mad.RMPPVersion
	}
	r.Flags |= mad.RMPPActive
	r.Put(b[mad.HeaderLen:])
	if data != nil {
		clear(b[40:])
		copy(b[40:], data)
	}
	require.NoError(p.t, p.a.Send(&mads.Message{To: p.to, MAD: b}))
}

// data sends DATA n of a message of several segments.
func (p *rawPeer) data(tid uint64, n, of uint32) {
	r := mad.RMPP{Type: mad.RMPPData, Data1: n}
	if n == 1 {
		r.Flags |= mad.RMPPFirst
		r.Data2 = of * 220
	}
	if n == of {
		r.Flags |= mad.RMPPLast
		r.Data2 = 220
	}
	p.send(mad.Set, tid, r, byte(n), byte(n>>8))
}

// next returns the next packet that arrived.
func (p *rawPeer) next() (mad.Header, mad.RMPP) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Hour)
	defer cancel()
	r, err := p.a.Recv(ctx)
	require.NoError(p.t, err)
	var x mad.RMPP
	x.Parse(r.MAD[mad.HeaderLen:])
	return r.Header(), x
}

func ack(seg, window uint32) mad.RMPP {
	return mad.RMPP{Version: 1, Type: mad.RMPPAck, ResponseTime: mad.RMPPNoTime, Flags: mad.RMPPActive,
		Data1: seg, Data2: window}
}

func abort(typ mad.RMPPType, s mad.RMPPStatus) mad.RMPP {
	return mad.RMPP{Version: 1, Type: typ, ResponseTime: mad.RMPPNoTime, Flags: mad.RMPPActive, Status: s}
}

// received returns the packets that the peer receives for a transfer that it sends. ACKs have the R bit, which an agent
// receives only for its own transaction IDs, so received reads the tap.
func received(x *tap) []string {
	synctest.Wait()
	var s []string
	for _, l := range x.lines() {
		if l[0] == '>' {
			s = append(s, l[2:])
		}
	}
	return s
}

// A receiver's reaction to valid and invalid packets of a sender. Node a receives; the last packet that it sends is
// checked.
func TestRMPPReceiver(t *testing.T) {
	first := mad.RMPP{Type: mad.RMPPData, Flags: mad.RMPPFirst, Data1: 1, Data2: 3 * 220}
	only := mad.RMPP{Type: mad.RMPPData, Flags: mad.RMPPFirst | mad.RMPPLast, Data1: 1, Data2: 4 + 10}
	with := func(r mad.RMPP, f func(*mad.RMPP)) mad.RMPP { f(&r); return r }
	for name, c := range map[string]struct {
		play func(p *rawPeer)
		want []string
		got  int // messages delivered
	}{
		"one segment": {func(p *rawPeer) { p.send(mad.Set, 1, only) }, []string{"ACK 1 1"}, 1},
		"a duplicate is answered": {func(p *rawPeer) { p.send(mad.Set, 1, only); p.send(mad.Set, 1, only) },
			[]string{"ACK 1 1", "ACK 1 1"}, 1},
		"for 10 s": {func(p *rawPeer) {
			p.send(mad.Set, 1, only)
			time.Sleep(9999 * time.Millisecond)
			p.send(mad.Set, 1, only)
		}, []string{"ACK 1 1", "ACK 1 1"}, 1},
		"then it is a new one": {func(p *rawPeer) {
			p.send(mad.Set, 1, only)
			time.Sleep(10001 * time.Millisecond)
			p.send(mad.Set, 1, only)
		}, []string{"ACK 1 1", "ACK 1 1"}, 2},
		"a gap is filled": {func(p *rawPeer) {
			for _, n := range []uint32{1, 3, 4, 3, 2} {
				p.data(1, n, 4)
			}
		}, []string{"ACK 1 65", "ACK 4 65"}, 1},
		"backwards": {func(p *rawPeer) {
			p.data(1, 1, 65)
			synctest.Wait()
			for n := uint32(65); n > 1; n-- {
				p.data(1, n, 65)
			}
		}, []string{"ACK 1 65", "ACK 65 65"}, 1},
		"beyond the window": {func(p *rawPeer) { p.data(1, 1, 100); p.data(1, 66, 100) }, []string{"ACK 1 65"}, 0},
		"no first segment":  {func(p *rawPeer) { p.data(1, 2, 3) }, nil, 0},
		"too long between segments": {func(p *rawPeer) {
			p.data(1, 1, 3)
			time.Sleep(39 * time.Second)
			p.data(1, 2, 3)
			time.Sleep(39 * time.Second)
			p.data(1, 2, 3)
			time.Sleep(2 * time.Second)
		}, []string{"ACK 1 65", "ACK 2 65", "ABORT 118"}, 0},
		"first without the flag": {func(p *rawPeer) {
			p.send(mad.Set, 1,
				with(first, func(r *mad.RMPP) { r.Flags = 0 }))
		}, []string{"ABORT 120"}, 0},
		"second with the flag": {func(p *rawPeer) {
			p.send(mad.Set, 1, first)
			p.send(mad.Set, 1, with(first, func(r *mad.RMPP) { r.Data1 = 2 }))
		}, []string{"ACK 1 65", "ABORT 120"}, 0},
		"number 0": {func(p *rawPeer) {
			p.send(mad.Set, 1,
				with(first, func(r *mad.RMPP) { r.Data1 = 0 }))
		}, []string{"ABORT 120"}, 0},
		"behind the last": {func(p *rawPeer) { p.data(1, 1, 3); p.data(1, 3, 3); p.data(1, 4, 9) },
			[]string{"ACK 1 65", "ABORT 120"}, 0},
		"last before another": {func(p *rawPeer) { p.data(1, 1, 9); p.data(1, 5, 9); p.data(1, 4, 4) },
			[]string{"ACK 1 65", "ABORT 120"}, 0},
		"last too long": {func(p *rawPeer) {
			p.send(mad.Set, 1,
				with(only, func(r *mad.RMPP) { r.Data2 = 221 }))
		}, []string{"ABORT 119"}, 0},
		"last shorter than header": {func(p *rawPeer) {
			p.send(mad.Set, 1,
				with(only, func(r *mad.RMPP) { r.Data2 = 3 }))
		}, []string{"ABORT 119"}, 0},
		"not what was announced": {func(p *rawPeer) { p.data(1, 1, 3); p.data(1, 2, 2) },
			[]string{"ACK 1 65", "ABORT 119"}, 0},
		"nothing announced": {func(p *rawPeer) {
			p.send(mad.Set, 1,
				with(first, func(r *mad.RMPP) { r.Data2 = 0 }))
			p.data(1, 2, 2)
		}, []string{"ACK 1 65", "ACK 2 65"}, 1},
		"version": {func(p *rawPeer) { p.send(mad.Set, 1, with(first, func(r *mad.RMPP) { r.Version = 2 })) },
			[]string{"ABORT 125"}, 0},
		"type": {func(p *rawPeer) { p.send(mad.Set, 1, with(first, func(r *mad.RMPP) { r.Type = 9 })) },
			[]string{"ABORT 121"}, 0},
		"status": {func(p *rawPeer) { p.send(mad.Set, 1, with(first, func(r *mad.RMPP) { r.Status = 1 })) },
			[]string{"ABORT 124"}, 0},
		"sender gives up": {func(p *rawPeer) {
			p.data(1, 1, 3)
			p.send(mad.Set, 1, abort(mad.RMPPAbort, mad.RMPPUnspecified))
			p.data(1, 2, 3)
		}, []string{"ACK 1 65"}, 0},
		"sender gives up of nothing": {func(p *rawPeer) {
			p.send(mad.Set, 1,
				abort(mad.RMPPAbort, mad.RMPPUnspecified))
		}, nil, 0},
		"too long": {func(p *rawPeer) { p.send(mad.Set, 1, with(first, func(r *mad.RMPP) { r.Data2 = 100 * 220 })) },
			[]string{"STOP 1"}, 0},
		"longer than announced": {func(p *rawPeer) {
			p.send(mad.Set, 1, with(first, func(r *mad.RMPP) { r.Data2 = 0 }))
			for n := uint32(2); n < 60; n++ {
				p.data(1, n, 1000)
			}
		}, []string{"ACK 1 65", "STOP 1"}, 0},
		"too many": {func(p *rawPeer) {
			for tid := range uint64(5) {
				p.send(mad.Set, tid, first)
			}
		}, []string{"ACK 1 65", "ACK 1 65", "STOP 1", "STOP 1", "STOP 1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			limit := mads.Config{MaxTransfers: 8}
			if name == "too long" || name == "longer than announced" {
				limit.MaxMessage = 50 * perSegment
			}
			tapped(t, limit, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
				got := 0
				longAgent(a, "receiver", []mad.Method{mad.Set}, func(r *mads.Received) { got++ })
				c.play(newRawPeer(t, b, a))
				assert.Equal(t, c.want, received(x))
				assert.Equal(t, c.got, got)
			})
		})
	}
}

// A sender's reaction to valid and invalid replies of a receiver. Node a sends a request of 100 segments; the peer
// replies to each packet until its list is empty.
func TestRMPPSender(t *testing.T) {
	const segments = 100
	for name, c := range map[string]struct {
		answers []mad.RMPP
		last    []string // the last packets that a sends
		err     mads.RMPPError
	}{
		"ABORT": {[]mad.RMPP{abort(mad.RMPPAbort, mad.RMPPTotalTimeout)}, []string{"DATA 1 22000"},
			mads.RMPPError{Status: mad.RMPPTotalTimeout, Peer: true}},
		"ABORT later": {[]mad.RMPP{ack(1, 3), abort(mad.RMPPAbort, mad.RMPPUnspecified)},
			[]string{"DATA 2 0", "DATA 3 0"}, mads.RMPPError{Status: mad.RMPPUnspecified, Peer: true}},
		"STOP": {[]mad.RMPP{abort(mad.RMPPStop, mad.RMPPResourcesExhausted)},
			[]string{"DATA 1 22000"}, mads.RMPPError{Status: mad.RMPPResourcesExhausted, Peer: true}},
		"STOP with a wrong status": {[]mad.RMPP{abort(mad.RMPPStop, 5)}, []string{"DATA 1 22000"},
			mads.RMPPError{Status: mad.RMPPIllegalStatus, Peer: true}},
		"window below the segment": {[]mad.RMPP{ack(1, 0)}, []string{"DATA 1 22000", "ABORT 122"},
			mads.RMPPError{Status: mad.RMPPWindowTooSmall}},
		"segment beyond the window": {[]mad.RMPP{ack(2, 3)}, []string{"DATA 1 22000", "ABORT 123"},
			mads.RMPPError{Status: mad.RMPPSegmentTooBig}},
		"segment beyond the end": {[]mad.RMPP{ack(1, 1000), ack(101, 1000)}, []string{"ABORT 123"},
			mads.RMPPError{Status: mad.RMPPSegmentTooBig}},
		"status in an ACK": {[]mad.RMPP{{Version: 1, Type: mad.RMPPAck, Status: 3, Data1: 1, Data2: 2}},
			[]string{"DATA 1 22000", "ABORT 124"}, mads.RMPPError{Status: mad.RMPPIllegalStatus}},
		"version": {[]mad.RMPP{{Version: 3, Type: mad.RMPPAck, Data1: 1, Data2: 2}},
			[]string{"DATA 1 22000", "ABORT 125"}, mads.RMPPError{Status: mad.RMPPBadVersion}},
		"old ACKs are no matter": {[]mad.RMPP{ack(1, 2), ack(1, 1), ack(0, 1), ack(2, 3),
			abort(mad.RMPPAbort, mad.RMPPUnspecified)}, []string{"DATA 2 0",
			"DATA 3 0"}, mads.RMPPError{Status: mad.RMPPUnspecified, Peer: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
				client := longAgent(a, "client", nil, nil)
				peer := newRawPeer(t, b, a)
				end := make(chan error)
				go func() {
					_, err := client.Do(t.Context(), &mads.Message{To: b.address(),
						MAD: message(mad.Set, 9, segments*perSegment)})
					end <- err
				}()
				h, first := peer.next()
				assert.Equal(t, mad.RMPP{Version: 1, Type: mad.RMPPData, ResponseTime: mad.RMPPNoTime,
					Flags: mad.RMPPActive | mad.RMPPFirst, Data1: 1, Data2: 22000}, first)
				for _, r := range c.answers {
					peer.send(mad.Set|mad.ResponseMask, h.TID, r)
					synctest.Wait()
				}
				err := <-end
				require.ErrorIs(t, err, ci.ErrorStatus)
				var e *mads.RMPPError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.err, *e)
				sent := received(x)
				assert.Equal(t, c.last, sent[len(sent)-len(c.last):][:len(c.last):len(c.last)], "%v", sent)
				peer.send(mad.Set|mad.ResponseMask, h.TID, ack(1, 3)) // to a transfer that has ended
				assert.Equal(t, sent, received(x))
			})
		})
	}
}

// A request whose context ends, and an agent that is closed, notify the peer.
func TestRMPPCancel(t *testing.T) {
	tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
		client := longAgent(a, "client", nil, nil)
		newRawPeer(t, b, a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Do(ctx, &mads.Message{To: b.address(), MAD: message(mad.Set, 9, 1000)})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, client.Send(&mads.Message{To: b.address(), MAD: message(mad.Set, 10, 1000)}))
		assert.ErrorIs(t, client.Send(&mads.Message{To: b.address(), MAD: message(mad.Set, 10, 1000)}), ci.ResourceBusy)
		synctest.Wait()
		require.NoError(t, client.Close())
		assert.Equal(t, []string{"DATA 1 1020", "ABORT 127", "DATA 1 1020", "ABORT 127"}, received(x))
		assert.Equal(t, uint64(1), a.counters().Dropped[mads.DropTransfer])
	})
}

// GetMulti is double sided: the requester reverses the direction with an ACK of segment 0.
func TestRMPPDoubleSided(t *testing.T) {
	tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
		var server mads.Agent
		server = b.agent(mads.AgentConfig{Class: mad.ClassSubnetAdmin, Version: 2, Methods: []mad.Method{mad.GetMulti},
			RMPP: true, OnReceive: func(r *mads.Received) {
				r.MAD[3] = byte(mad.GetMultiResp)
				assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: r.MAD}))
			}})
		client := a.agent(mads.AgentConfig{Class: mad.ClassSubnetAdmin, Version: 2, RMPP: true})
		m := make([]byte, 56+300)
		copy(m, request(mad.ClassSubnetAdmin, 2, mad.GetMulti, 5))
		m[355] = 1
		r, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: m})
		require.NoError(t, err)
		assert.Equal(t, m[56:], r.MAD[56:])
		assert.Equal(t, 1, x.count("> ACK 0 1"))
		lines := x.lines()
		assert.Less(t, slices.Index(lines, "< ACK 2 65"), slices.Index(lines, "> ACK 0 1"))
	})
}
