package chaos

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/wire"
)

// truth records the QPs that the consumers of each HCA created, the peers that they connected to, and the remote keys
// that they posted. A frame of that HCA must contain no others.
type truth struct {
	v     *verdict
	hosts sync.Map // netip.Addr → *used
	magic atomic.Pointer[[][]byte]
	mu    sync.Mutex
}

// used is the record for one address.
type used struct {
	qps    sync.Map // ci.QPN → bool: whether frames may reveal it to peers
	peers  sync.Map // ci.QPN → bool: QPs of peers that the consumers connected to
	keys   sync.Map // ci.Key → bool: remote keys posted
	hidden sync.Map // ci.QPN → bool
}

func newTruth(v *verdict) *truth { return &truth{v: v} }

func (t *truth) of(a netip.Addr) *used {
	u, _ := t.hosts.LoadOrStore(a, &used{})
	return u.(*used)
}

// secret adds bytes that no frame may contain.
func (t *truth) secret(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var l [][]byte
	if p := t.magic.Load(); p != nil {
		l = append(l, *p...)
	}
	l = append(l, b)
	t.magic.Store(&l)
}

// layer records the verbs of an HCA.
func (t *truth) layer(a netip.Addr) ciwrap.Layer {
	u := t.of(a)
	return ciwrap.Layer{QP: func(in ci.QP, c ci.QPCreate) ci.QP {
		u.qps.Store(in.Num(), true)
		return &recordedQP{ciwrap.QP{QP: in}, u}
	}}
}

// recordedQP records the keys and QPs that its consumer uses.
type recordedQP struct {
	ciwrap.QP
	u *used
}

func (q *recordedQP) Modify(set ci.QPField, attr ci.QPAttr) error {
	if set&ci.QPFieldDestNum != 0 {
		q.u.peers.Store(attr.DestNum, true)
	}
	return q.QP.Modify(set, attr)
}

func (q *recordedQP) PostSend(wrs []ci.SendWR) (int, error) {
	for i := range wrs {
		q.u.record(&wrs[i])
	}
	return q.QP.PostSend(wrs)
}

func (u *used) record(wr *ci.SendWR) {
	if _, ok := u.keys.Load(wr.Remote.RKey); !ok {
		u.keys.Store(wr.Remote.RKey, true)
	}
	if wr.Flags&ci.SendInvalidate != 0 {
		u.keys.Store(wr.Inv, true)
	}
	if wr.To.AV != nil {
		if _, ok := u.peers.Load(wr.To.QPN); !ok {
			u.peers.Store(wr.To.QPN, true)
		}
	}
}

// check checks a packet that an HCA sent.
func (t *truth) check(d *sim.Datagram) {
	var f wire.Frame
	if err := wire.ParseIP(d.Data, &f); err != nil {
		t.v.failf("the HCA at %v sent a packet that does not parse: %v", d.From, err)
		return
	}
	u := t.of(d.From)
	p := &f.Packet
	op := p.BTH.Opcode
	has := func(m *sync.Map, k any) bool { _, ok := m.Load(k); return ok }
	switch {
	case d.From == rung: // its queues may contain any keys
	case op == wire.CNP: // has the QP of a peer, like any other packet
	case op.Service() == wire.UD:
		if p.DETH.SrcQP > 1 && !has(&u.qps, ci.QPN(p.DETH.SrcQP)) {
			t.v.failf("the HCA at %v sent a datagram from QP %#x, which its consumers did not make",
				d.From, p.DETH.SrcQP)
		}
	case op == wire.RCReadRequest || op.Op() == wire.OpWrite && op.Start():
		if !has(&u.keys, ci.Key(p.RETH.RKey)) {
			t.v.failf("the HCA at %v sent the key %#x, which its consumers did not post", d.From, p.RETH.RKey)
		}
	case op == wire.RCCompareSwap || op == wire.RCFetchAdd:
		if !has(&u.keys, ci.Key(p.AtomicETH.RKey)) {
			t.v.failf("the HCA at %v sent the key %#x in an atomic, which its consumers did not post", d.From,
				p.AtomicETH.RKey)
		}
	}
	if q := ci.QPN(p.BTH.DestQP); q > 1 && d.From != rung && !has(&u.peers, q) {
		t.v.failf("the HCA at %v sent a packet (%v) to QP %#x, which none of its consumers named", d.From,
			op, p.BTH.DestQP)
	}
	if m := t.magic.Load(); m != nil {
		for _, s := range *m {
			if bytes.Contains(p.Payload, s) {
				t.v.failf("the HCA at %v sent the content of memory that no peer has a key of (%v)", d.From, op)
			}
		}
	}
	if p.BTH.DestQP == 1 && len(p.Payload) == mad.Size {
		t.checkCM(u, d.From, p.Payload)
	}
}

// checkCM checks the QP numbers in connection management messages.
func (t *truth) checkCM(u *used, from netip.Addr, b []byte) {
	if mad.Class(b[1]) != mad.ClassCM || mad.Method(b[3]) != mad.Send { // services for all classes answer other methods
		return
	}
	_, m, err := mad.ParseCM(b)
	if err != nil {
		t.v.failf("the HCA at %v sent a CM message that does not parse: %v", from, err)
		return
	}
	var q ci.QPN
	switch m := m.(type) {
	case *mad.REQ:
		q = ci.QPN(m.LocalQPN)
	case *mad.REP:
		q = ci.QPN(m.LocalQPN)
	default:
		return
	}
	_, made := u.qps.Load(q)
	_, hidden := u.hidden.Load(q)
	if !made || hidden {
		t.v.failf("the HCA at %v told a peer of QP %#x, which is not of that connection (made here: %v)", from, q, made)
	}
}
