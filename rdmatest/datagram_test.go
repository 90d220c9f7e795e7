package rdmatest_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/link/impair"
	"ciddk/rdmatest"
)

const (
	datagramSize  = 1000
	datagramCount = 8
	grhLen        = 40
)

// datagrams is an ID with a UD QP that has posted receives.
type datagrams struct {
	id     *cmid.ID
	region ci.Region
}

var datagramQP = cmid.QPConfig{Caps: ci.QPCaps{SendDepth: 1, RecvDepth: 64}}

func newDatagrams(id *cmid.ID) (*datagrams, error) {
	pd, err := id.PD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, grhLen+datagramSize)), Access: ci.LocalWrite})
	if err != nil {
		return nil, err
	}
	d := &datagrams{id: id, region: mr.Region()}
	for range datagramQP.Caps.RecvDepth {
		wr := ci.RecvWR{SGL: []ci.SGE{d.region.SGE(0, grhLen+datagramSize)}}
		if _, err := id.QP().PostRecv([]ci.RecvWR{wr}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// completion waits for a completion.
func completion(ctx context.Context, cq *accesslayer.CQ) (ci.WC, error) {
	wc := make([]ci.WC, 1)
	_, err := cq.Wait(ctx, wc)
	return wc[0], err
}

// send sends a datagram with the own QP number as immediate data.
func (d *datagrams) send(ctx context.Context, to rdmacm.Peer, size uint32) error {
	pd, err := d.id.PD()
	if err != nil {
		return err
	}
	av, err := pd.NewAV(to.AV)
	if err != nil {
		return err
	}
	wr := ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendImmediate, Imm: uint32(d.id.QP().Num()),
		SGL: []ci.SGE{d.region.SGE(0, size)}, To: ci.Dest{AV: av, QPN: to.QPN, QKey: to.QKey}}
	if _, err := d.id.QP().PostSend([]ci.SendWR{wr}); err != nil {
		return err
	}
	if _, err := completion(ctx, d.id.SendCQ()); err != nil {
		return err
	}
	return av.Destroy()
}

// answer answers datagrams until the context ends.
func (d *datagrams) answer(ctx context.Context) {
	for {
		wc, err := completion(ctx, d.id.RecvCQ())
		if err != nil {
			return
		}
		peer := d.id.Peer()
		peer.QPN = ci.QPN(wc.Imm)
		if d.send(ctx, peer, 100) != nil {
			return
		}
	}
}

// assembly runs clients on hosts of their own, which look up the server's QPs by SIDR, send datagrams to it and to a
// multicast group of all hosts.
func assembly(t *testing.T, cfg rdmatest.Config) (trace []rdmatest.Packet, hash string) {
	t.Helper()
	const clientCount = 4
	group := netip.MustParseAddr("239.1.2.3")
	space := cmid.IDConfig{Space: cmid.UDP}
	synctest.Test(t, func(t *testing.T) {
		names := []string{"server"}
		for i := range clientCount {
			names = append(names, fmt.Sprint("client ", i))
		}
		n := rdmatest.New(t, cfg, names...)
		server := n.Host("server")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		run := func(f func() error) { all.Go(func() { assert.NoError(t, f()) }) }
		ln, err := server.IDs().Listen(server.AddrPort(7174), cmid.ListenConfig{ID: space})
		require.NoError(t, err)
		run(func() error {
			for range clientCount {
				id, err := ln.Accept(ctx)
				if err != nil {
					return err
				}
				if err := id.CreateQP(datagramQP); err != nil {
					return err
				}
				d, err := newDatagrams(id)
				if err != nil {
					return err
				}
				if err := id.Accept(ctx, cmid.ConnParam{}); err != nil {
					return err
				}
				all.Go(func() { d.answer(ctx) })
			}
			return nil
		})
		for i := range clientCount {
			h := n.Host(names[1+i])
			run(func() error {
				var d *datagrams
				id, err := h.IDs().Dial(ctx, server.AddrPort(7174), cmid.DialConfig{ID: space, QP: datagramQP,
					Setup: func(id *cmid.ID) (err error) { d, err = newDatagrams(id); return err }})
				if err != nil {
					return err
				}
				g, err := id.Join(ctx, group, rdmacm.JoinConfig{})
				if err != nil {
					return err
				}
				for range datagramCount {
					if err := d.send(ctx, id.Peer(), datagramSize); err != nil {
						return err
					}
					time.Sleep(time.Millisecond)
					if err := d.send(ctx, g.Peer(), 10); err != nil {
						return err
					}
				}
				return nil
			})
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		trace, hash = n.Trace(), n.TraceHash()
		cancel()
		all.Wait()
	})
	return trace, hash
}

// TestReplayDatagrams replays lookups by SIDR, datagrams and multicast.
func TestReplayDatagrams(t *testing.T) {
	for name, faults := range map[string]impair.Model{"good": {}, "bad": badNetwork} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				cfg := rdmatest.Config{Seed: seed, Faults: faults}
				first, hash := assembly(t, cfg)
				require.Greater(t, len(first), 4*datagramCount*2)
				for i := range 3 {
					waste := make([]byte, 100_000*(i+1))
					again, hashAgain := assembly(t, cfg)
					require.Empty(t, rdmatest.Difference(first, again))
					require.Equal(t, hash, hashAgain)
					runtime.KeepAlive(waste)
				}
			}
		})
	}
}
