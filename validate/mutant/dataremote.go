package mutant

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Remote returns mutants with faults in RDMA, atomics, UC and UD.
func Remote() []Mutant {
	return slices.Concat(rdmaMutants(), atomicMutants(), ucMutants(), udMutants())
}

// ofOp returns a wrapper that changes send requests of one operation.
func ofOp(op ci.SendOp, f func(w *ci.SendWR)) func(ci.HCA) ci.HCA {
	return tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
		if w.Op == op {
			f(w)
		}
	})
}

func rdmaMutants() []Mutant {
	return []Mutant{
		{
			Name:   "rdma.write-short",
			Area:   "rdma",
			Breaks: "IBTA-9.4-01",
			Does:   "a write of more than 1024 bytes loses its last byte",
			Wrap: ofOp(ci.OpWrite, func(w *ci.SendWR) {
				if total(w.SGL) > 1024 {
					shorten(w.SGL)
				}
			}),
		},
		{Name: "rdma.write-takes-receive", Area: "rdma", Breaks: "IBTA-9.4-02", Does: "every write takes a receive",
			Wrap: ofOp(ci.OpWrite, func(w *ci.SendWR) { w.Flags |= ci.SendImmediate })},
		{
			Name:   "rdma.write-imm-length",
			Area:   "rdma",
			Breaks: "IBTA-9.4-03",
			Does:   "the completion of a receive taken by a write with immediate has length 0",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Status == ci.WCSuccess && wc.Op == ci.WCRecvWrite {
					wc.Length = 0
				}
			}),
		},
		{
			Name:   "rdma.read-short",
			Area:   "rdma",
			Breaks: "IBTA-9.4-04",
			Does:   "a read of more than 1024 bytes loses its last byte",
			Wrap: ofOp(ci.OpRead, func(w *ci.SendWR) {
				if total(w.SGL) > 1024 {
					shorten(w.SGL)
				}
			}),
		},
		{
			Name:   "rdma.read-scatter-reversed",
			Area:   "rdma",
			Breaks: "IBTA-9.4-05",
			Does:   "segments of a read are filled in reverse order",
			Wrap:   ofOp(ci.OpRead, func(w *ci.SendWR) { slices.Reverse(w.SGL) }),
		},
		{
			Name:   "rdma.read-depth-refused",
			Area:   "rdma",
			Breaks: "IBTA-9.4-06",
			Does:   "a list of more reads than the initiator depth is rejected",
			Wrap: tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				a, err := q.Query()
				reads := 0
				for i := range wrs {
					if wrs[i].Op != ci.OpRead {
						continue
					}
					if reads++; err == nil && reads > int(a.InitDepth) {
						n, err := q.PostSend(wrs[:i])
						if err == nil {
							err = &ci.Error{Verb: "QP.PostSend", Status: ci.InsufficientResources}
						}
						return n, err
					}
				}
				return q.PostSend(wrs)
			}),
		},
		{
			Name:   "rdma.zero-checked",
			Area:   "rdma",
			Breaks: "IBTA-9.4-07",
			Does:   "the key of a write of no bytes is checked, because one byte is written",
			Wrap:   zeroChecked,
		},
		{
			Name:   "rdma.write-behind-send",
			Area:   "rdma",
			Breaks: "IBTA-9.5-01",
			Does:   "sends of a list overtake its writes",
			Wrap:   lateWrites(),
		},
		{
			Name:   "rdma.writes-reversed",
			Area:   "rdma",
			Breaks: "IBTA-9.5-02",
			Does:   "writes of a list are executed in reverse order",
			Wrap: tap.Sends(func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
				if !slices.ContainsFunc(wrs, func(w ci.SendWR) bool { return w.Op != ci.OpWrite }) {
					for i, j := 0, len(wrs)-1; i < j; i, j = i+1, j-1 {
						wrs[i].SGL, wrs[j].SGL = wrs[j].SGL, wrs[i].SGL
					}
				}
				return wrs
			}),
		},
		{
			Name:   "rdma.read-before-write",
			Area:   "rdma",
			Breaks: "IBTA-9.5-03",
			Does:   "reads of a list overtake its writes",
			Wrap:   tap.Sends(readsFirst),
		},
		{
			Name:   "rdma.last-word-first",
			Area:   "rdma",
			Breaks: "CI-Memory-01",
			Does:   "the last word of a long write is written before the rest, which waits for a poll",
			Wrap:   lastWordFirst(),
		},
		{Name: "rdma.all-rights", Area: "rdma", Breaks: "IBTA-9.9-13", Does: "every QP grants all rights",
			Wrap: tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAccess != 0 {
					a.Access |= ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic
				}
			})},
		{
			Name:   "rdma.region-rights",
			Area:   "rdma",
			Breaks: "CI-Rights-02",
			Does:   "every region grants all remote rights",
			Wrap: tap.Layer(ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
				c.Access |= ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite
				return c
			}}),
		},
		{
			Name:   "rdma.needs-read",
			Area:   "rdma",
			Breaks: "CI-Rights-01",
			Does:   "a QP that does not grant reading grants nothing",
			Wrap: tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAccess != 0 && a.Access&ci.RemoteRead == 0 {
					a.Access = 0
				}
			}),
		},
	}
}

// readsFirst swaps a write and a read and makes the write wait for the read. The completions keep the order of the ids.
func readsFirst(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
	if len(wrs) == 2 && wrs[0].Op == ci.OpWrite && wrs[1].Op == ci.OpRead {
		wrs[0], wrs[1] = wrs[1], wrs[0]
		wrs[0].ID, wrs[1].ID = wrs[1].ID, wrs[0].ID
		wrs[1].Flags |= ci.SendFence
	}
	return wrs
}

// lateWrites keeps the writes of a list of several requests until the send CQ is polled.
func lateWrites() func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &lateCQ{CQ: ciwrap.CQ{CQ: c}} },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, _ := ci.As[*lateCQ](c.SendCQ)
			return lateWriter{lateQP{ciwrap.QP{QP: q}, cq}}
		},
	})
}

type lateWriter struct{ lateQP }

func (l lateWriter) PostSend(wrs []ci.SendWR) (int, error) {
	if len(wrs) < 2 {
		return l.QP.PostSend(wrs)
	}
	writes := slices.DeleteFunc(slices.Clone(wrs), func(w ci.SendWR) bool { return w.Op != ci.OpWrite })
	others := slices.DeleteFunc(slices.Clone(wrs), func(w ci.SendWR) bool { return w.Op == ci.OpWrite })
	if n, err := l.QP.PostSend(others); err != nil {
		return n, err
	}
	_, _ = l.lateQP.PostSend(writes)
	return len(wrs), nil
}

// lastWordFirst writes the last 8 bytes of a write at once, and the rest when the send CQ is polled.
func lastWordFirst() func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &lateCQ{CQ: ciwrap.CQ{CQ: c}} },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, _ := ci.As[*lateCQ](c.SendCQ)
			return endWriter{lateQP{ciwrap.QP{QP: q}, cq}}
		},
	})
}

type endWriter struct{ lateQP }

func (e endWriter) PostSend(wrs []ci.SendWR) (int, error) {
	if len(wrs) != 1 || wrs[0].Op != ci.OpWrite || len(wrs[0].SGL) != 1 || wrs[0].SGL[0].Length < 4096 {
		return e.QP.PostSend(wrs)
	}
	rest, end := tap.CopySends(wrs), tap.CopySends(wrs)
	n := rest[0].SGL[0].Length - 8
	rest[0].SGL[0].Length = n
	end[0].SGL[0].Addr += uint64(n)
	end[0].SGL[0].Length = 8
	end[0].Remote.Addr += uint64(n)
	end[0].Flags = 0
	if n, err := e.QP.PostSend(end); err != nil {
		return n, err
	}
	return e.lateQP.PostSend(rest)
}

// zeroChecked replaces a write of no bytes by a write of one byte from its own region.
func zeroChecked(h ci.HCA) ci.HCA {
	var spare atomic.Pointer[ci.SGE]
	return ciwrap.Wrap(h, ciwrap.Layer{
		MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR {
			g := m.Region().SGE(0, 1)
			spare.Store(&g)
			return m
		},
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			return tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
				for i := range wrs {
					if g := spare.Load(); g != nil && wrs[i].Op == ci.OpWrite && wrs[i].Inline == nil &&
						total(wrs[i].SGL) == 0 {
						wrs[i].SGL = []ci.SGE{*g}
					}
				}
				return wrs
			})
		},
	})
}

func atomicMutants() []Mutant {
	return []Mutant{
		{Name: "atomic.cas-never", Area: "atomic", Breaks: "IBTA-9.4-10", Does: "a compare-and-swap never swaps",
			Wrap: ofOp(ci.OpCompareSwap, func(w *ci.SendWR) { w.Atomic.Swap = w.Atomic.Compare })},
		{
			Name:   "atomic.cas-32",
			Area:   "atomic",
			Breaks: "IBTA-9.4-10",
			Does:   "only the lower half of the new value is stored",
			Wrap:   ofOp(ci.OpCompareSwap, func(w *ci.SendWR) { w.Atomic.Swap &= 1<<32 - 1 }),
		},
		{
			Name:   "atomic.faa-32",
			Area:   "atomic",
			Breaks: "IBTA-9.4-11",
			Does:   "only the lower half of the addend is added",
			Wrap:   ofOp(ci.OpFetchAdd, func(w *ci.SendWR) { w.Atomic.Compare &= 1<<32 - 1 }),
		},
		{
			Name:   "atomic.lost",
			Area:   "atomic",
			Breaks: "IBTA-9.4-12",
			Does:   "one of 32 additions is lost",
			Wrap:   lostAdds,
		},
		{
			Name:   "atomic.network-order",
			Area:   "atomic",
			Breaks: "CI-Atomic-01",
			Does:   "operands are read in network byte order",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				w.Atomic.Compare, w.Atomic.Swap = bits.ReverseBytes64(
					w.Atomic.Compare,
				), bits.ReverseBytes64(
					w.Atomic.Swap,
				)
			}),
		},
		{
			Name:   "atomic.rounded",
			Area:   "atomic",
			Breaks: "IBTA-9.4-13",
			Does:   "a misaligned atomic is executed on the word that contains its address",
			Wrap:   ofOp(ci.OpFetchAdd, func(w *ci.SendWR) { w.Remote.Addr &^= 7 }),
		},
		{Name: "atomic.length-0", Area: "atomic", Breaks: "CI-Atomic-03", Does: "completions of atomics have length 0",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Op == ci.WCFetchAdd || wc.Op == ci.WCCompareSwap {
					wc.Length = 0
				}
			})},
		{
			Name:   "atomic.before-write",
			Area:   "atomic",
			Breaks: "IBTA-9.4-14",
			Does:   "an atomic overtakes the write before it",
			Wrap:   tap.Sends(atomicsFirst),
		},
		{
			Name:   "atomic.twice",
			Area:   "atomic",
			Breaks: "IBTA-9.7-12",
			Does:   "the 40th atomic of a QP is executed twice, like a duplicate request",
			Wrap: tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
				return &doubler{QP: ciwrap.QP{QP: q}}
			}),
		},
	}
}

// atomicsFirst swaps a write and an atomic after it, and makes the write wait for the atomic. The completions keep the
// order of the ids.
func atomicsFirst(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
	if len(wrs) > 1 && wrs[0].Op == ci.OpWrite && wrs[1].Op == ci.OpFetchAdd {
		wrs[0], wrs[1] = wrs[1], wrs[0]
		wrs[0].ID, wrs[1].ID = wrs[1].ID, wrs[0].ID
		wrs[1].Flags |= ci.SendFence
	}
	return wrs
}

func lostAdds(h ci.HCA) ci.HCA {
	var n atomic.Uint32
	return ofOp(ci.OpFetchAdd, func(w *ci.SendWR) {
		if n.Add(1)%32 == 0 {
			w.Atomic.Compare = 0
		}
	})(h)
}

// doubler doubles the addend of one fetch-and-add.
type doubler struct {
	ciwrap.QP
	numAdds int
}

func (d *doubler) PostSend(wrs []ci.SendWR) (int, error) {
	wrs = tap.CopySends(wrs)
	for i := range wrs {
		if wrs[i].Op == ci.OpFetchAdd {
			if d.numAdds++; d.numAdds == 40 {
				wrs[i].Atomic.Compare *= 2
			}
		}
	}
	return d.QP.PostSend(wrs)
}

func ucMutants() []Mutant {
	ofUC := func(f func(w *ci.SendWR)) func(ci.HCA) ci.HCA {
		return tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
			if c.Type == ci.UC {
				f(w)
			}
		})
	}
	return []Mutant{
		{
			Name:   "uc.packet-short",
			Area:   "uc",
			Breaks: "IBTA-9.8-01",
			Does:   "a UC message of more than one packet loses its last byte",
			Needs:  ci.CapUC,
			Wrap: ofUC(func(w *ci.SendWR) {
				if w.Op == ci.OpSend && total(w.SGL) > 1024 {
					shorten(w.SGL)
				}
			}),
		},
		{
			Name:   "uc.write-elsewhere",
			Area:   "uc",
			Breaks: "IBTA-9.8-02",
			Does:   "a UC write is placed one byte too high",
			Needs:  ci.CapUC,
			Wrap: ofUC(func(w *ci.SendWR) {
				if w.Op == ci.OpWrite {
					w.Remote.Addr++
				}
			}),
		},
		{
			Name:   "uc.drop-fails",
			Area:   "uc",
			Breaks: "IBTA-9.8-03",
			Does:   "a UC write takes the QP to Error after it has completed",
			Needs:  ci.CapUC,
			Wrap: tap.Post(func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if c.Type == ci.UC && len(wrs) == 1 && wrs[0].Op == ci.OpWrite {
					_ = q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
				}
				return n, err
			}),
		},
		{
			Name:   "uc.all-rights",
			Area:   "uc",
			Breaks: "IBTA-9.8-03",
			Does:   "every UC QP grants remote writes",
			Needs:  ci.CapUC,
			Wrap: tap.Modify(func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if c.Type == ci.UC && set&ci.QPFieldAccess != 0 {
					a.Access |= ci.RemoteWrite
				}
			}),
		},
		{
			Name:   "uc.drop-takes-receive",
			Area:   "uc",
			Breaks: "IBTA-9.8-04",
			Does:   "a dropped UC write with immediate takes a receive",
			Needs:  ci.CapUC,
			Wrap: ofUC(func(w *ci.SendWR) {
				if w.Op == ci.OpWrite && w.Flags&ci.SendImmediate != 0 {
					w.Op, w.SGL = ci.OpSend, nil
				}
			}),
		},
		{
			Name:   "uc.damaged",
			Area:   "uc",
			Breaks: "IBTA-9.8-20",
			Does:   "one of 16 UC messages arrives with wrong bytes",
			Needs:  ci.CapUC,
			Wrap:   damaged(ci.UC),
		},
		{
			Name:   "uc.order",
			Area:   "uc",
			Breaks: "IBTA-9.8-05",
			Does:   "every second UC message has the bytes of another message",
			Needs:  ci.CapUC,
			Wrap:   ucSwapped,
		},
	}
}

// damaged shifts one of 16 messages of a service by one byte, after the number that the first 8 bytes may hold.
func damaged(typ ci.QPType) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		var n atomic.Uint32
		return tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
			if c.Type == typ && len(w.SGL) == 1 && w.SGL[0].Length > 16 && c.SendSGE > 1 && n.Add(1)%16 == 0 {
				g := w.SGL[0]
				w.SGL = []ci.SGE{
					{Addr: g.Addr, Length: 8, LKey: g.LKey}, {Addr: g.Addr + 9, Length: g.Length - 9, LKey: g.LKey},
				}
			}
		})(h)
	}
}

// ucSwapped replaces the bytes of every second message by those of the message before.
func ucSwapped(h ci.HCA) ci.HCA {
	var n atomic.Uint32
	return tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
		if c.Type == ci.UC && w.Op == ci.OpSend && len(w.SGL) > 0 && w.SGL[0].Length == 64 && n.Add(1)%2 == 0 {
			w.SGL[0].Addr -= 64
		}
	})(h)
}

func udMutants() []Mutant {
	isUD := func(c ci.QPCreate) bool { return c.Type == ci.UD }
	received := func(f func(wc *ci.WC)) func(ci.HCA) ci.HCA {
		return tap.Poll(func(wc *ci.WC) {
			if wc.Status == ci.WCSuccess && wc.Op == ci.WCRecv && wc.SrcQP != 0 {
				f(wc)
			}
		})
	}
	list := []Mutant{
		{
			Name:   "ud.damaged",
			Breaks: "IBTA-9.8-21",
			Does:   "one of 16 datagrams arrives with wrong bytes",
			Wrap:   damaged(ci.UD),
		},
		{
			Name:   "ud.length",
			Breaks: "IBTA-9.8-10",
			Does:   "the length of a datagram does not include the 40 bytes of the GRH",
			Wrap:   received(func(wc *ci.WC) { wc.Length -= 40 }),
		},
		{
			Name:   "ud.no-grh-flag",
			Breaks: "IBTA-9.8-11",
			Does:   "WCGRH is never set",
			Wrap:   tap.Poll(func(wc *ci.WC) { wc.Flags &^= ci.WCGRH }),
		},
		{
			Name:   "ud.grh-flag-turned",
			Breaks: "IBTA-9.8-11",
			Does:   "WCGRH is set if there is no GRH, and clear if there is one",
			Wrap:   received(func(wc *ci.WC) { wc.Flags ^= ci.WCGRH }),
		},
		{
			Name:   "ud.source-qp",
			Breaks: "IBTA-9.8-12",
			Does:   "the source QPN of a datagram is the receiver's own",
			Wrap:   received(func(wc *ci.WC) { wc.SrcQP = wc.QPN }),
		},
		{Name: "ud.any-qkey", Breaks: "IBTA-9.8-13", Does: "Q_Keys are not compared",
			Wrap: tap.Both(
				tap.Modify(func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
					if isUD(c) && set&ci.QPFieldQKey != 0 {
						a.QKey = 1
					}
				}),
				tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
					if isUD(c) {
						w.To.QKey = 1
					}
				}))},
		{
			Name:   "ud.privileged-qkey",
			Breaks: "IBTA-9.8-14",
			Does:   "a Q_Key with the high bit set is sent without it",
			Wrap:   tap.Send(func(c ci.QPCreate, w *ci.SendWR) { w.To.QKey &^= 1 << 31 }),
		},
		{Name: "ud.qkey-counter", Breaks: "IBTA-9.8-15", Does: "wrong Q_Keys are not counted", Needs: ci.CapQKeyCounter,
			Wrap: tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return uncounted{ciwrap.CA{CA: c}} }})},
		{
			Name:   "ud.cut",
			Breaks: "IBTA-9.8-16",
			Does:   "a datagram longer than the MTU is truncated",
			Wrap: tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
				if isUD(c) && total(w.SGL) == 1025 {
					shorten(w.SGL)
				}
			}),
		},
		{
			Name:   "ud.last-receive-waits",
			Breaks: "IBTA-9.8-17",
			Does:   "a receive too short for a datagram ends in a protection error",
			Wrap: received(func(wc *ci.WC) {
				if wc.Length == 50 {
					wc.Status = ci.WCLocalProtErr
				}
			}),
		},
		{Name: "ud.no-immediate", Breaks: "IBTA-9.8-18", Does: "datagrams lose their immediate data",
			Wrap: tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
				if isUD(c) {
					w.Flags &^= ci.SendImmediate
				}
			})},
		{Name: "ud.av-frozen", Breaks: "CI-ModifyAV-01", Does: "AV.Modify has no effect",
			Wrap: tap.Layer(ciwrap.Layer{AV: func(a ci.AV, _ ci.AVAttr) ci.AV { return frozenAV{ciwrap.AV{AV: a}} }})},
		{
			Name:   "ud.av-dropped",
			Breaks: "CI-PostSend-07",
			Does:   "a datagram without a usable AV is dropped, and success is returned",
			Wrap:   answers(ci.InvalidAVHandle, ci.Success),
		},
		{
			Name:   "ud.av-any-pd",
			Breaks: "CI-PostSend-08",
			Does:   "an AV of any PD is accepted",
			Wrap: tap.Post(func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if !isUD(c) || n == len(wrs) || ci.StatusOf(err) != ci.InvalidAVHandle || wrs[n].To.AV == nil {
					return n, err
				}
				addr, _, e := wrs[n].To.AV.Query()
				a, e2 := q.Query()
				if e != nil || e2 != nil {
					return n, err
				}
				av, e := a.PD.CreateAV(addr)
				if e != nil {
					return n, err
				}
				one := tap.CopySends(wrs[n : n+1])
				one[0].To.AV = av
				k, err := q.PostSend(one)
				_ = av.Destroy() // the reference HCA has sent the datagram already
				return n + k, err
			}),
		},
		{
			Name:   "ud.av-any-port",
			Breaks: "CI-CreateAV-01",
			Does:   "an AV for a port that does not exist is created for port 1",
			Wrap: tap.Layer(
				ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return portlessPD{ciwrap.PD{PD: p}} }},
			),
		},
		{Name: "ud.av-eternal", Breaks: "CI-DestroyAV-01", Does: "an AV can be destroyed more than once",
			Wrap: tap.Layer(ciwrap.Layer{AV: func(a ci.AV, _ ci.AVAttr) ci.AV { return eternalAV{ciwrap.AV{AV: a}} }})},
		{
			Name:   "ud.av-unchecked",
			Breaks: "CI-CreateAV-02",
			Does:   "a send with an unusable AV completes with a protection error",
			Wrap:   status(ci.WCLocalOpErr, ci.WCLocalProtErr),
		},
	}
	for i := range list {
		list[i].Area = "ud"
		list[i].Needs |= ci.CapUD | ci.CapAV
	}
	return list
}

type uncounted struct{ ciwrap.CA }

func (u uncounted) Query() (*ci.CAAttr, error) {
	a, err := u.CA.Query()
	if err == nil {
		for i := range a.Ports {
			a.Ports[i].QKeyErrors = 0
		}
	}
	return a, err
}

type frozenAV struct{ ciwrap.AV }

func (frozenAV) Modify(ci.AVAttr) error { return nil }

type eternalAV struct{ ciwrap.AV }

func (e eternalAV) Destroy() error {
	err := e.AV.Destroy()
	if ci.StatusOf(err) == ci.InvalidAVHandle {
		return nil
	}
	return err
}

type portlessPD struct{ ciwrap.PD }

func (p portlessPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	a.Port = 1
	return p.PD.CreateAV(a)
}
