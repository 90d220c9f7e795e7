package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

const (
	grhLen    = 40
	gramLen   = 512
	gramDepth = 16
	gramMagic = 0x6772616d
)

// groups adds members of multicast groups. They check that only datagrams of their group or for their QP arrive,
// unchanged.
func (w *world) groups(hosts ...*host) {
	for i, h := range hosts {
		w.repeat(fmt.Sprintf("group member %d", i), func(a *actor) { w.member(a, h, h.addr == volatile) })
	}
}

// member joins a group, sends and receives for a while, and leaves.
func (w *world) member(a *actor, h *host, unsteady bool) {
	fail := func(what string, err error) {
		if err != nil && !ended(err) && !unsteady && w.ctx.Err() == nil {
			w.v.failf("group member at %v: %s: %v", h.addr, what, err)
		}
		if unsteady {
			a.pause(10 * time.Millisecond)
		}
	}
	ctx, cancel := a.patient()
	defer cancel()
	id, err := h.rcm.NewID(cmid.IDConfig{Space: cmid.UDP})
	if err != nil {
		fail("new ID", err)
		return
	}
	defer func() { fail("close", id.Close()) }()
	if err := id.Bind(netip.AddrPortFrom(h.addr, 0)); err != nil {
		fail("bind", err)
		return
	}
	if err := id.CreateQP(cmid.QPConfig{Caps: ci.QPCaps{SendDepth: 8, RecvDepth: gramDepth,
		SendSGE: 1, RecvSGE: 1}}); err != nil {
		fail("create QP", err)
		return
	}
	num := 1 + a.rnd.IntN(3)
	g, err := id.Join(ctx, netip.AddrFrom4([4]byte{239, 66, 0, byte(num)}), cmid.JoinConfig{})
	if err != nil {
		fail("join", err)
		return
	}
	m := &gram{w: w, id: id, num: num, mem: newGuarded((gramDepth+1)*gramLen, a.rnd.Uint64())}
	if err := m.run(ctx, a, g.Peer()); err != nil {
		fail("datagrams", err)
	}
	if err := m.mem.check(); err != nil {
		w.v.failf("group member at %v: %v", h.addr, err)
	}
	if a.rnd.IntN(2) == 0 {
		fail("leave", g.Leave(ctx))
	}
}

// gram is the memory and the QP of a member.
type gram struct {
	w   *world
	id  *cmid.ID
	num int
	mem *guarded
	mr  *accesslayer.MR
}

func (m *gram) run(ctx context.Context, a *actor, to cmid.Peer) error {
	pd, err := m.id.PD()
	if err != nil {
		return err
	}
	if m.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(m.mem.body()), Access: ci.LocalWrite}); err != nil {
		return err
	}
	defer func() { _ = m.mr.Destroy() }() // fails if its adapter has been removed meanwhile
	av, err := pd.NewAV(to.AV)
	if err != nil {
		return err
	}
	defer func() { _ = av.Destroy() }() // fails if its adapter has been removed meanwhile
	for i := range gramDepth {
		if err := m.post(i); err != nil {
			return err
		}
	}
	out := m.mem.body()[gramDepth*gramLen:]
	for n := range uint64(1 + a.rnd.IntN(40)) {
		if m.w.ctx.Err() != nil {
			break
		}
		size := 24 + a.rnd.IntN(gramLen-grhLen-24)
		binary.BigEndian.PutUint64(out, gramMagic)
		binary.BigEndian.PutUint64(out[8:], uint64(m.num)<<32|n)
		binary.BigEndian.PutUint64(out[16:], uint64(size))
		fill(out[24:size], gramMagic, uint64(m.num)<<32|n)
		wr := ci.SendWR{ID: n, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{m.mr.Region().SGE(gramDepth*gramLen,
			uint32(size))},
			To: ci.Dest{AV: av, QPN: to.QPN, QKey: to.QKey}}
		if _, err := m.id.QP().PostSend([]ci.SendWR{wr}); err != nil {
			return err
		}
		var wc [1]ci.WC
		if k, err := m.id.SendCQ().Wait(ctx, wc[:]); err != nil {
			return err
		} else if k != 1 || wc[0].ID != n || wc[0].Status != ci.WCSuccess {
			return fmt.Errorf("send %d: %d completions, that of %d with %v", n, k, wc[0].ID, wc[0].Status)
		}
		if err := m.look(a); err != nil {
			return err
		}
	}
	return nil
}

func (m *gram) post(i int) error {
	_, err := m.id.QP().PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: []ci.SGE{m.mr.Region().SGE(uint64(i*gramLen),
		gramLen)}}})
	return err
}

// look checks the datagrams that have arrived.
func (m *gram) look(a *actor) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+a.rnd.IntN(3))*time.Millisecond)
	defer cancel()
	var wc [4]ci.WC
	n, err := m.id.RecvCQ().Wait(ctx, wc[:])
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range wc[:n] {
		if wc[i].Status != ci.WCSuccess {
			return fmt.Errorf("receive: %w", wc[i].Err())
		}
		b := m.mem.body()[wc[i].ID*gramLen:][grhLen:wc[i].Length]
		if len(b) < 24 || binary.BigEndian.Uint64(b) != gramMagic {
			return fmt.Errorf("a datagram of %d bytes that no member sent", len(b))
		}
		num, size := binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
		if num>>32 != uint64(m.num) {
			return fmt.Errorf("a datagram of group %d, the member is in %d", num>>32, m.num)
		}
		if size != uint64(len(b)) || differs(b[24:], gramMagic, num) >= 0 {
			return fmt.Errorf("a datagram of %d bytes that are not those sent", len(b))
		}
		m.w.tally.add("datagrams received", 1)
		if err := m.post(int(wc[i].ID)); err != nil {
			return err
		}
	}
	return nil
}
