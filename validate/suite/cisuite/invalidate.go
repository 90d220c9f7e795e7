package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Keys that a QP must not invalidate, by a request of its own and by a request of its peer. (IBTA 10.6.6, 11.4.1.)
var invalidates = &validate.Area{Feature: validate.FeatureMROpt,
	Needs: validate.Needs{AnyCaps: ci.CapFastReg | ci.CapMW2}}

const invalidateSource = "OpLocalInv, SendInvalidate"

var ciLocalInv03 = invalidates.Must("CI-LocalInv-03", "IBTA 10.6.6", invalidateSource,
	"A local invalidate fails for a region that was not registered fast, for one of another PD or with bound "+
		"windows, for a window of type 1, and for a window that was bound through another QP. The key continues "+
		"to grant access.")

var ciSendInv02 = invalidates.Must("CI-SendInv-02", "IBTA 10.6.6", invalidateSource,
	"A SEND with such a key completes its receive with an error, the receiver goes to Error, and the key "+
		"continues to grant access. The sender gets an acknowledgement.")

// heldKey is a key that the QP of B must not invalidate.
type heldKey struct {
	what  string
	needs ci.Caps
	// hold creates the object and returns the key that grants access, and a pair that uses it: nil if the adapter does
	// not permit such an object.
	hold func(t *validate.T, p *kit.Pair) (user *kit.Pair, to ci.Remote, at []byte)
	// variant changes the key to that of the request. It may be nil.
	variant func(ci.Key) ci.Key
}

var heldKeys = []heldKey{
	{what: "of a region that was not registered fast",
		hold: func(_ *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
			return p, b.Remote(0), b.Bytes
		}},
	{what: "of a fast-registered region of another PD", needs: ci.CapFastReg,
		hold: func(t *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			other := p.Another()
			s := newFast(t, other, 1)
			return other, s.register(t, kit.AllAccess), s.mem[:64]
		}},
	{what: "of a fast-registered region with other low bits", needs: ci.CapFastReg,
		hold: func(t *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			s := newFast(t, p, 1)
			return p, s.register(t, kit.AllAccess), s.mem[:64]
		},
		variant: func(k ci.Key) ci.Key { return k ^ 0x81 }},
	{what: "of a fast-registered region with a bound window", needs: ci.CapFastReg | ci.CapMW1,
		hold: func(t *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			s := newFast(t, p, 1)
			to := s.register(t, bindable)
			w := p.B.CA.MW(p.B.PD, ci.MWType1)
			_, err := p.B.BindMW(bindID, ci.SendSignaled,
				ci.MWBind{MW: w, Key: w.Key(), MR: s.MR, Addr: to.Addr, Length: 64, Access: ci.RemoteRead})
			if err != nil || p.B.CQ.WaitStatus(bindID, ci.WCSuccess, ci.WCBindErr).Status != ci.WCSuccess {
				p.Reconnect() // the adapter binds no windows to such regions
				return nil, to, nil
			}
			return p, to, s.mem[:64]
		}},
	{what: "of a window of type 1", needs: ci.CapMW1,
		hold: func(_ *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			b := p.B.CA.Buf(p.B.PD, 64, bindable)
			w := bound(p.B, b, ci.RemoteWrite)
			return p, ci.Remote{Addr: b.Addr, RKey: w.Key()}, b.Bytes
		}},
	{what: "of a window that was bound through another QP", needs: ci.CapMW2,
		hold: func(t *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			other := p.More(false)
			b := p.B.CA.Buf(p.B.PD, 64, bindable)
			return other, bound2(t, other.B, p.B.CA.MW(p.B.PD, ci.MWType2), b, ci.RemoteRead|ci.RemoteWrite), b.Bytes
		}},
	{what: "of a window that was bound through a QP of another PD", needs: ci.CapMW2,
		hold: func(t *validate.T, p *kit.Pair) (*kit.Pair, ci.Remote, []byte) {
			other := p.Another()
			b := p.B.CA.Buf(other.B.PD, 64, bindable)
			w := p.B.CA.MW(other.B.PD, ci.MWType2)
			return other, bound2(t, other.B, w, b, ci.RemoteRead|ci.RemoteWrite), b.Bytes
		}},
}

// eachHeld calls f with a connected pair for each key that B must not invalidate, and expects that the key still grants
// access afterwards.
func eachHeld(t *validate.T, f func(p *kit.Pair, what string, key ci.Key)) {
	p := kit.RC(t, kit.Size(4096))
	for _, h := range kit.Variants(t, "", heldKeys) {
		if !t.Claims().Has(h.needs) {
			continue
		}
		user, to, at := h.hold(t, p)
		if user == nil {
			continue
		}
		user.WantWrite("the key "+h.what, to, at)
		key := to.RKey
		if h.variant != nil {
			key = h.variant(key)
		}
		f(p, h.what, key)
		user.WantWrite("the key "+h.what+", after a request to invalidate it has failed", to, at)
	}
}

var _ = invalidates.Add("mr.invalidate.local", "local invalidates of keys that a QP must not invalidate",
	invalidateLocal, ciLocalInv03)

func invalidateLocal(t *validate.T) {
	eachHeld(t, func(p *kit.Pair, what string, key ci.Key) {
		n, err := p.B.PostSend([]ci.SendWR{{ID: 8, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: key}})
		if err != nil {
			kit.WantTaken(t, "QP.PostSend of a local invalidate "+what, n, err, 0, ci.InvalidParameter, ci.InvalidRKey)
			return
		}
		p.B.CQ.WaitStatus(8, fastFailed...)
		p.Reconnect()
	})
}

var _ = invalidates.Needing(validate.Needs{Caps: ci.CapSendInvalidate}).Add("mr.invalidate.send",
	"sends whose receiver must not invalidate their key", func(t *validate.T) {
		eachHeld(t, func(p *kit.Pair, _ string, key ci.Key) {
			p.B.Recv(p.B.RecvWR(3, 0, 64), p.B.RecvWR(4, 64, 64))
			w := p.A.SendWR(5, 0, 20)
			w.Flags |= ci.SendInvalidate
			w.Inv = key
			p.A.Send(w)
			// The error is one of class J, which is not answered by a NAK. Earlier versions required one (D-77).
			if wc := p.A.CQ.WaitStatus(5, ci.WCSuccess, ci.WCRemAccessErr, ci.WCRemOpErr,
				ci.WCRemInvalidReqErr); wc.Status != ci.WCSuccess {
				t.Note("a SEND whose key was not invalidated: %s, but IBTA 9.9.6.3 has no NAK", wc.Status.String())
			}
			p.B.Becomes(ci.QPError)
			p.B.RecvCQ.WaitStatus(3, ci.WCFlushErr, ci.WCLocalAccessErr, ci.WCBindErr, ci.WCRemInvalidReqErr)
			p.B.RecvCQ.WaitStatus(4, ci.WCFlushErr)
			p.Reconnect()
		})
	}, ciSendInv02)
