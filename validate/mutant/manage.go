package mutant

import (
	"encoding/binary"
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// Management are faults that management datagrams and connections meet: of special QPs, of what QPs are told by a connection manager, and of the
// datagrams themselves, as a driver that mangles them would send them.
func Management() []Mutant {
	m := func(name, breaks, does string, wrap func(ci.HCA) ci.HCA) Mutant {
		return Mutant{Name: name, Area: "cm", Breaks: breaks, Does: does, Needs: ci.CapSpecialQP, Wrap: wrap}
	}
	// Attributes of the connection manager (IBTA volume 1, 16.7.2) and where fields lie in a datagram (12.6).
	const (
		req, mra, rej, rep, rtu, dreq, drep, sidrReq, sidrRep, apr = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x1a
		tid, body                                                  = 8, 24
	)
	edit := func(name, breaks, does string, attr uint16, f func(b []byte)) Mutant {
		return m(name, breaks, does, onMAD(func(b []byte) bool {
			if isCM(b, attr) {
				f(b)
			}
			return true
		}))
	}
	lose := func(name, breaks, does string, is func(b []byte, nth int) bool) Mutant {
		return m(name, breaks, does, func(h ci.HCA) ci.HCA {
			var mu sync.Mutex
			seen := map[uint16]int{}
			return onMAD(func(b []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				attr := binary.BigEndian.Uint16(b[16:])
				seen[attr]++
				return !is(b, seen[attr])
			})(h)
		})
	}
	all := func(attr uint16) func([]byte, int) bool { return func(b []byte, _ int) bool { return isCM(b, attr) } }
	after := func(n int, attr uint16) func([]byte, int) bool {
		return func(b []byte, nth int) bool { return isCM(b, attr) && nth > n }
	}
	return []Mutant{
		m("mad.byte", "MAD-GSI-01", "byte 255 of each datagram sent through QP1 is zero", onMAD(func(b []byte) bool { b[255] = 0; return true })),
		m("mad.twice", "MAD-GSI-01", "what goes to QP1 goes there twice", onSends(func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
			if c.Type != ci.QP1 {
				return wrs
			}
			var out []ci.SendWR
			for _, w := range wrs {
				again := w
				again.Flags &^= ci.SendSignaled
				out = append(out, again, w)
			}
			return out
		})),
		m("mad.source", "MAD-GSI-02", "datagrams come from QP 2, says the completion", onPoll(func(w *ci.WC) {
			if w.SrcQP == 1 {
				w.SrcQP = 2
			}
		})),
		m("mad.transaction", "MAD-GSI-03", "responses have the transaction ID 1", onMAD(func(b []byte) bool {
			if b[3]&0x80 != 0 {
				binary.BigEndian.PutUint64(b[tid:], 1)
			}
			return true
		})),
		m("mad.some", "MAD-GSI-04", "one request in eight is never answered", onMAD(func(b []byte) bool { return b[3]&0x80 == 0 || b[23]&7 != 5 })),
		m("mad.version", "MAD-GSI-05", "class versions are 1, always", onMAD(func(b []byte) bool {
			if b[1] == 0x09 {
				b[2] = 1
			}
			return true
		})),
		lose("mad.once", "MAD-GSI-06", "a request that is sent again goes nowhere", func(b []byte, nth int) bool { return b[1] == 0x09 && nth > 1 }),
		onLink("direct", m("mad.qp0", "MAD-SMI-01", "what goes to QP0 goes to QP1", onSend(func(c ci.QPCreate, w *ci.SendWR) {
			if c.Type == ci.QP0 {
				w.To.QPN = 1
			}
		}))),
		m("mad.last-segment", "MAD-GSI-07", "segments beyond 80 go nowhere", onMAD(func(b []byte) bool {
			return b[1] != 0x03 || b[25] != 1 || binary.BigEndian.Uint32(b[28:]) <= 80
		})),

		m("cm.psn", "CM-Conn-01", "a QP expects the PSN after the one it is told", onModify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
			if set&ci.QPFieldRQPSN != 0 {
				a.RQPSN = (a.RQPSN + 1) & 0xffffff
			}
		})),
		edit("cm.rep-private", "CM-Conn-02", "the last byte of a REP's private data is zero", rep, func(b []byte) { b[255] = 0 }),
		m("cm.depth", "CM-Conn-03", "a QP has one RDMA read more outstanding than it is told", onModify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
			if set&ci.QPFieldInitDepth != 0 {
				a.InitDepth++
			}
		})),
		m("cm.silent", "CM-Conn-04", "communication established is not told", layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
			if e.Type != ci.EventQPComm {
				deliver(e)
			}
		}})),
		m("cm.stays", "CM-Conn-05", "a QP that was connected cannot be again: Reset is refused", layer(ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			return &modifier{QP: ciwrap.QP{QP: q}, typ: c.Type, f: func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPReset && (c.Type == ci.RC || c.Type == ci.UC) {
					return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidQPState}
				}
				return q.inner(set, a)
			}}
		}})),
		edit("cm.reason", "CM-Conn-06", "REJ has reason 28 whatever the manager said", rej, func(b []byte) { b[body+11] = 28 }),
		edit("cm.rej-private", "CM-Conn-07", "REJ loses its private data", rej, func(b []byte) { clear(b[body+84:]) }),
		edit("cm.req-private", "CM-Conn-08", "REQ loses its private data", req, func(b []byte) { clear(b[body+140:]) }),
		edit("cm.same-qpn", "CM-Conn-09", "every REP names QP 0x777", rep, func(b []byte) { b[body+12], b[body+13], b[body+14] = 0, 7, 0x77 }),

		edit("cm.req-reserved", "CM-Req-01", "a reserved field of the REQ is not zero", req, func(b []byte) { b[body+24] = 1 }),
		edit("cm.rtu-transaction", "CM-Req-02", "the RTU has a transaction ID of its own", rtu, func(b []byte) { binary.BigEndian.PutUint64(b[tid:], 99) }),
		lose("cm.req-once", "CM-Req-03", "a REQ goes out once", after(1, req)),
		lose("cm.rtu-once", "CM-Req-04", "an RTU goes out once", after(1, rtu)),
		m("cm.no-mra", "CM-Req-05", "an MRA that comes is one of class version 9", onMADIn(func(b []byte) {
			if isCM(b, mra) {
				b[2] = 9
			}
		})),
		m("cm.rej-in", "CM-Req-06", "a REJ that comes has lost its information", onMADIn(func(b []byte) {
			if isCM(b, rej) {
				b[body+9] = 0
			}
		})),
		lose("cm.no-rej", "CM-Req-07", "no REJ goes out", all(rej)),
		edit("cm.which", "CM-Req-08", "a REJ rejects the REQ, always", rej, func(b []byte) { b[body+8] = 0 }),
		m("cm.any-id", "CM-Req-09", "a REP that comes has the remote ID of the first REQ", func(h ci.HCA) ci.HCA {
			var mu sync.Mutex
			var id []byte
			out := onMAD(func(b []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				if isCM(b, req) && id == nil {
					id = append(id, b[body:body+4]...)
				}
				return true
			})
			return onMADIn(func(b []byte) {
				mu.Lock()
				defer mu.Unlock()
				if isCM(b, rep) && id != nil {
					copy(b[body+4:], id)
				}
			})(out(h))
		}),

		edit("cm.rep-transaction", "CM-Ans-01", "the REP has a transaction ID of its own", rep, func(b []byte) { binary.BigEndian.PutUint64(b[tid:], 99) }),
		lose("cm.rep-for-one", "CM-Ans-02", "a REP goes out once", after(1, rep)),
		lose("cm.rep-twice", "CM-Ans-03", "a REP goes out twice, not three times", after(2, rep)),
		edit("cm.no-service", "CM-Ans-04", "every REJ says invalid service ID", rej, func(b []byte) { b[body+11] = 8 }),
		edit("cm.not-stale", "CM-Ans-05", "a stale connection is no resources", rej, func(b []byte) { b[body+11] = 3 }),
		edit("cm.impatient", "CM-Ans-06", "MRA promises 4 us", mra, func(b []byte) { b[body+9] = 0 }),
		lose("cm.flooded", "CM-Ans-07", "REJ goes nowhere when there are many", after(20, rej)),
		m("cm.rej-of-rep", "CM-Ans-08", "a REJ that comes names no reason", onMADIn(func(b []byte) {
			if isCM(b, rej) {
				b[body+10], b[body+11] = 0, 0
			}
		})),

		edit("cm.dreq-qpn", "CM-End-01", "the DREQ names QP 5", dreq, func(b []byte) { b[body+8], b[body+9], b[body+10] = 0, 0, 5 }),
		lose("cm.dreq-once", "CM-End-02", "a DREQ goes out once", after(1, dreq)),
		lose("cm.drep-once", "CM-End-03", "a DREP goes out once", after(1, drep)),
		lose("cm.no-drep", "CM-End-04", "no DREP goes out", all(drep)),
		m("cm.not-told", "CM-End-05", "a REJ that comes is for another connection", onMADIn(func(b []byte) {
			if isCM(b, rej) {
				b[body+4] ^= 0x80
			}
		})),
		lose("cm.apr-once", "CM-End-06", "an APR goes out once", after(1, apr)),
		lose("cm.no-dreq", "CM-End-07", "no DREQ goes out", all(dreq)),

		edit("cm.sidr-private", "CM-Sidr-01", "SIDR_REQ loses its private data", sidrReq, func(b []byte) { clear(b[body+16:]) }),
		m("cm.sidr-status", "CM-Sidr-02", "a SIDR_REP that comes says rejected, always", onMADIn(func(b []byte) {
			if isCM(b, sidrRep) && b[body+4] != 0 {
				b[body+4] = 2
			}
		})),
		lose("cm.sidr-once", "CM-Sidr-03", "a SIDR_REP goes out once", after(1, sidrRep)),
	}
}

// isCM tells whether b is a CM message.
func isCM(b []byte, attr uint16) bool { return b[1] == 0x07 && binary.BigEndian.Uint16(b[16:]) == attr }

// regions finds the bytes behind scatter/gather entries, of regions that this process can address.
type regions struct {
	mu    sync.Mutex
	byKey map[ci.Key]region
}

type region struct {
	mem  ci.Memory
	addr uint64 // of byte 0 of mem
}

func (r *regions) add(mr ci.MR, o ciwrap.MROrigin) {
	if o.Kind != ciwrap.MRVirtual {
		return
	}
	at := mr.Region()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = map[ci.Key]region{}
	}
	r.byKey[at.LKey] = region{o.Virtual.Memory, at.Addr - o.Virtual.Offset}
}

// bytes copies n bytes from skip on out of a list of entries, or with put true back into it; false where they cannot be reached.
func (r *regions) bytes(sgl []ci.SGE, skip int, b []byte, put bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sgl {
		if skip >= int(s.Length) {
			skip -= int(s.Length)
			continue
		}
		g, ok := r.byKey[s.LKey]
		if !ok {
			return false
		}
		n := min(int(s.Length)-skip, len(b))
		var err error
		if off := int64(s.Addr-g.addr) + int64(skip); put {
			_, err = g.mem.WriteAt(b[:n], off)
		} else {
			_, err = g.mem.ReadAt(b[:n], off)
		}
		if err != nil {
			return false
		}
		if b, skip = b[n:], 0; len(b) == 0 {
			return true
		}
	}
	return len(b) == 0
}

const madLen = 256

// onMAD changes datagrams on their way out through QP1, in the consumer's own memory; with false they go to a QP that nobody has.
func onMAD(f func(b []byte) bool) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		r := &regions{}
		return ciwrap.Wrap(h, ciwrap.Layer{
			MR: func(mr ci.MR, o ciwrap.MROrigin) ci.MR { r.add(mr, o); return mr },
			QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				if c.Type != ci.QP1 {
					return q
				}
				return sendTap{ciwrap.QP{QP: q}, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
					for i := range wrs {
						b := make([]byte, madLen)
						if !r.bytes(wrs[i].SGL, 0, b, false) {
							continue
						}
						if !f(b) {
							wrs[i].To.QPN = 0xfffffe
						}
						r.bytes(wrs[i].SGL, 0, b, true)
					}
					return wrs
				}}
			},
		})
	}
}

// onMADIn changes datagrams that came to QP1 before the consumer sees them.
func onMADIn(f func(b []byte)) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		r := &regions{}
		var mu sync.Mutex
		posted := map[uint64][]ci.SGE{} // by ID: consumers of QP1 give each receive its own
		return ciwrap.Wrap(h, ciwrap.Layer{
			MR: func(mr ci.MR, o ciwrap.MROrigin) ci.MR { r.add(mr, o); return mr },
			QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				if c.Type != ci.QP1 {
					return q
				}
				return recvTap{ciwrap.QP{QP: q}, func(q ci.QP, wrs []ci.RecvWR) (int, error) {
					mu.Lock()
					for _, w := range wrs {
						posted[w.ID] = append([]ci.SGE(nil), w.SGL...)
					}
					mu.Unlock()
					return q.PostRecv(wrs)
				}}
			},
			CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return pollTap{ciwrap.CQ{CQ: c}, func(w *ci.WC) {
					mu.Lock()
					sgl, ok := posted[w.ID]
					mu.Unlock()
					b := make([]byte, madLen)
					if !ok || w.Op != ci.WCRecv || w.Status != ci.WCSuccess || !r.bytes(sgl, grhLen, b, false) {
						return
					}
					f(b)
					r.bytes(sgl, grhLen, b, true)
				}}
			},
		})
	}
}

// grhLen is what lies in front of a datagram (IBTA volume 1, 11.4.1.1).
const grhLen = 40
