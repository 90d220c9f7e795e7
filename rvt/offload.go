package rvt

import "ciddk/ci"

// An Offload makes the packets of a datagram request whose data an adapter changes on its way: large sends, and
// checksums.
type Offload interface {
	// Packets returns the payloads of the packets of a request with data b, which it may change and refer to. It
	// returns none for an invalid request, which completes with WCLocalOpErr.
	Packets(b []byte) [][]byte
}

// maxOffload is the most data of a request with an Offload.
const maxOffload = 1 << 17

// sendOffloaded sends the packets that the Offload of a datagram makes.
func (r *requester) sendOffloaded(t *turn, e *sendEntry, av *avState) ci.WCStatus {
	if e.w.Length > maxOffload {
		return ci.WCLocalLenErr
	}
	b := make([]byte, e.w.Length)
	if st := r.copyData(t, e, b); st != ci.WCSuccess {
		return st
	}
	list := e.w.Offload.Packets(b)
	if len(list) == 0 {
		return ci.WCLocalOpErr
	}
	most := r.datagramMTU(av.attr.SL)
	for _, d := range list {
		if uint64(len(d)) > uint64(most) {
			return ci.WCLocalLenErr
		}
	}
	for _, d := range list {
		t.room(1)
		p := t.packet()
		first := t.nsegs
		if len(d) > 0 {
			t.segs[t.nsegs] = d
			t.nsegs++
		}
		p.Payload, p.Len = t.segs[first:t.nsegs], uint32(len(d))
		r.addressDatagram(p, e, av, r.pkey)
	}
	e.npkts = uint32(len(list))
	t.left.spend(0, uint32(e.w.Length))
	return ci.WCSuccess
}

// copyData copies the data of a request to b, which has its length.
func (r *requester) copyData(t *turn, e *sendEntry, b []byte) ci.WCStatus {
	if e.w.IsInl {
		copy(b, e.w.Inline)
		return ci.WCSuccess
	}
	for _, g := range e.w.SGL {
		if g.Length == 0 {
			continue
		}
		m, st := t.holds.local(&r.dev.keys, r.pd, g, false)
		if st != ci.WCSuccess || m.read(b[:g.Length]) != nil {
			return ci.WCLocalProtErr
		}
		b = b[g.Length:]
	}
	return ci.WCSuccess
}
