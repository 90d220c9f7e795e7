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
		Of("rdma.write-short", "IBTA-9.4-01", "a write of more than 1024 bytes loses its last byte",
			ofOp(ci.OpWrite, func(w *ci.SendWR) {
				if total(w.SGL) > 1024 {
					shorten(w.SGL)
				}
			})),
		Of("rdma.write-takes-receive", "IBTA-9.4-02", "every write takes a receive",
			ofOp(ci.OpWrite, func(w *ci.SendWR) { w.Flags |= ci.SendImmediate })),
		Of("rdma.write-imm-length", "IBTA-9.4-03",
			"the completion of a receive taken by a write with immediate has length 0", tap.Poll(func(wc *ci.WC) {
				if wc.Status == ci.WCSuccess && wc.Op == ci.WCRecvWrite {
					wc.Length = 0
				}
			})),
		Of("rdma.read-short", "IBTA-9.4-04", "a read of more than 1024 bytes loses its last byte",
			ofOp(ci.OpRead, func(w *ci.SendWR) {
				if total(w.SGL) > 1024 {
					shorten(w.SGL)
				}
			})),
		Of("rdma.read-scatter-reversed", "IBTA-9.4-05", "segments of a read are filled in reverse order",
			ofOp(ci.OpRead, func(w *ci.SendWR) { slices.Reverse(w.SGL) })),
		Of("rdma.read-depth-refused", "IBTA-9.4-06", "a list of more reads than the initiator depth is rejected",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
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
			})),
		Of("rdma.zero-checked", "IBTA-9.4-07",
			"the key of a write of no bytes is checked, because one byte is written", zeroChecked),
		Of("rdma.write-behind-send", "IBTA-9.5-01", "sends of a list overtake its writes", lateWrites()),
		Of("rdma.writes-reversed", "IBTA-9.5-02", "writes of a list are executed in reverse order",
			tap.Sends(func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
				if !slices.ContainsFunc(wrs, func(w ci.SendWR) bool { return w.Op != ci.OpWrite }) {
					for i, j := 0, len(wrs)-1; i < j; i, j = i+1, j-1 {
						wrs[i].SGL, wrs[j].SGL = wrs[j].SGL, wrs[i].SGL
					}
				}
				return wrs
			})),
		Of("rdma.read-before-write", "IBTA-9.5-03", "reads of a list overtake its writes", tap.Sends(readsFirst)),
		Of("rdma.last-word-first", "CI-Memory-01",
			"the last word of a long write is written before the rest, which waits for a poll", lastWordFirst()),
		Of("rdma.all-rights", "IBTA-9.9-13", "every QP grants all rights",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAccess != 0 {
					a.Access |= ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic
				}
			})),
		Of("rdma.region-rights", "CI-Rights-02", "every region grants all remote rights",
			tap.Layer(ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
				c.Access |= ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite
				return c
			}})),
		Of("rdma.needs-read", "CI-Rights-01", "a QP that does not grant reading grants nothing",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAccess != 0 && a.Access&ci.RemoteRead == 0 {
					a.Access = 0
				}
			})),
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
	return tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &lateCQ{CQ: ciwrap.CQ{CQ: c}} },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, _ := ci.As[*lateCQ](c.SendCQ)
			return lateWriter{lateQP{ciwrap.QP{QP: q}, cq}}
		}})
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
	return tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &lateCQ{CQ: ciwrap.CQ{CQ: c}} },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, _ := ci.As[*lateCQ](c.SendCQ)
			return endWriter{lateQP{ciwrap.QP{QP: q}, cq}}
		}})
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
		Of("atomic.cas-never", "IBTA-9.4-10", "a compare-and-swap never swaps",
			ofOp(ci.OpCompareSwap, func(w *ci.SendWR) { w.Atomic.Swap = w.Atomic.Compare })),
		Of("atomic.cas-32", "IBTA-9.4-10", "only the lower half of the new value is stored",
			ofOp(ci.OpCompareSwap, func(w *ci.SendWR) { w.Atomic.Swap &= 1<<32 - 1 })),
		Of("atomic.faa-32", "IBTA-9.4-11", "only the lower half of the addend is added",
			ofOp(ci.OpFetchAdd, func(w *ci.SendWR) { w.Atomic.Compare &= 1<<32 - 1 })),
		Of("atomic.lost", "IBTA-9.4-12", "one of 32 additions is lost", lostAdds),
		Of("atomic.network-order", "CI-Atomic-01", "operands are read in network byte order",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				w.Atomic.Compare = bits.ReverseBytes64(w.Atomic.Compare)
				w.Atomic.Swap = bits.ReverseBytes64(w.Atomic.Swap)
			})),
		Of("atomic.rounded", "IBTA-9.4-13", "a misaligned atomic is executed on the word that contains its address",
			ofOp(ci.OpFetchAdd, func(w *ci.SendWR) { w.Remote.Addr &^= 7 })),
		Of("atomic.length-0", "CI-Atomic-03", "completions of atomics have length 0", tap.Poll(func(wc *ci.WC) {
			if wc.Op == ci.WCFetchAdd || wc.Op == ci.WCCompareSwap {
				wc.Length = 0
			}
		})),
		Of("atomic.before-write", "IBTA-9.4-14", "an atomic overtakes the write before it", tap.Sends(atomicsFirst)),
		Of("atomic.twice", "IBTA-9.7-12", "the 40th atomic of a QP is executed twice, like a duplicate request",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
				return &doubler{QP: ciwrap.QP{QP: q}}
			})),
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
		Of("uc.packet-short", "IBTA-9.8-01", "a UC message of more than one packet loses its last byte",
			ofUC(func(w *ci.SendWR) {
				if w.Op == ci.OpSend && total(w.SGL) > 1024 {
					shorten(w.SGL)
				}
			})).Needing(ci.CapUC),
		Of("uc.write-elsewhere", "IBTA-9.8-02", "a UC write is placed one byte too high", ofUC(func(w *ci.SendWR) {
			if w.Op == ci.OpWrite {
				w.Remote.Addr++
			}
		})).Needing(ci.CapUC),
		Of("uc.drop-fails", "IBTA-9.8-03", "a UC write takes the QP to Error after it has completed",
			tap.Post(func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if c.Type == ci.UC && len(wrs) == 1 && wrs[0].Op == ci.OpWrite {
					_ = q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
				}
				return n, err
			})).Needing(ci.CapUC),
		Of("uc.all-rights", "IBTA-9.8-03", "every UC QP grants remote writes",
			tap.Modify(func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if c.Type == ci.UC && set&ci.QPFieldAccess != 0 {
					a.Access |= ci.RemoteWrite
				}
			})).Needing(ci.CapUC),
		Of("uc.drop-takes-receive", "IBTA-9.8-04", "a dropped UC write with immediate takes a receive",
			ofUC(func(w *ci.SendWR) {
				if w.Op == ci.OpWrite && w.Flags&ci.SendImmediate != 0 {
					w.Op, w.SGL = ci.OpSend, nil
				}
			})).Needing(ci.CapUC),
		Of("uc.damaged", "IBTA-9.8-20", "one of 16 UC messages arrives with wrong bytes",
			damaged(ci.UC)).Needing(ci.CapUC),
		Of("uc.order", "IBTA-9.8-05", "every second UC message has the bytes of another message", ucSwapped).
			Needing(ci.CapUC),
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
		Of("ud.damaged", "IBTA-9.8-21", "one of 16 datagrams arrives with wrong bytes", damaged(ci.UD)),
		Of("ud.length", "IBTA-9.8-10", "the length of a datagram does not include the 40 bytes of the GRH",
			received(func(wc *ci.WC) { wc.Length -= 40 })),
		Of("ud.no-grh-flag", "IBTA-9.8-11", "WCGRH is never set",
			tap.Poll(func(wc *ci.WC) { wc.Flags &^= ci.WCGRH })),
		Of("ud.grh-flag-turned", "IBTA-9.8-11", "WCGRH is set if there is no GRH, and clear if there is one",
			received(func(wc *ci.WC) { wc.Flags ^= ci.WCGRH })),
		Of("ud.source-qp", "IBTA-9.8-12", "the source QPN of a datagram is the receiver's own",
			received(func(wc *ci.WC) { wc.SrcQP = wc.QPN })),
		Of("ud.any-qkey", "IBTA-9.8-13", "Q_Keys are not compared", tap.Both(
			tap.Modify(func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if isUD(c) && set&ci.QPFieldQKey != 0 {
					a.QKey = 1
				}
			}),
			tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
				if isUD(c) {
					w.To.QKey = 1
				}
			}))),
		Of("ud.privileged-qkey", "IBTA-9.8-14", "a Q_Key with the high bit set is sent without it",
			tap.Send(func(c ci.QPCreate, w *ci.SendWR) { w.To.QKey &^= 1 << 31 })),
		Of("ud.qkey-counter", "IBTA-9.8-15", "wrong Q_Keys are not counted",
			tap.CAs(func(c ciwrap.CA) ci.CA { return uncounted{c} })).Needing(ci.CapQKeyCounter),
		Of("ud.cut", "IBTA-9.8-16", "a datagram longer than the MTU is truncated",
			tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
				if isUD(c) && total(w.SGL) == 1025 {
					shorten(w.SGL)
				}
			})),
		Of("ud.last-receive-waits", "IBTA-9.8-17", "a receive too short for a datagram ends in a protection error",
			received(func(wc *ci.WC) {
				if wc.Length == 50 {
					wc.Status = ci.WCLocalProtErr
				}
			})),
		Of("ud.no-immediate", "IBTA-9.8-18", "datagrams lose their immediate data",
			tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
				if isUD(c) {
					w.Flags &^= ci.SendImmediate
				}
			})),
		Of("ud.av-frozen", "CI-ModifyAV-01", "AV.Modify has no effect",
			tap.AVs(func(a ciwrap.AV) ci.AV { return frozenAV{a} })),
		Of("ud.av-dropped", "CI-PostSend-07", "a datagram without a usable AV is dropped, and success is returned",
			answers(ci.InvalidAVHandle, ci.Success)),
		Of("ud.av-any-pd", "CI-PostSend-08", "an AV of any PD is accepted",
			tap.Post(func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error) {
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
			})),
		Of("ud.av-any-port", "CI-CreateAV-01", "an AV for a port that does not exist is created for port 1",
			tap.PDs(func(p ciwrap.PD) ci.PD { return portlessPD{p} })),
		Of("ud.av-eternal", "CI-DestroyAV-01", "an AV can be destroyed more than once",
			tap.AVs(func(a ciwrap.AV) ci.AV { return eternalAV{a} })),
		Of("ud.av-unchecked", "CI-CreateAV-02", "a send with an unusable AV completes with a protection error",
			status(ci.WCLocalOpErr, ci.WCLocalProtErr)),
	}
	for i := range list {
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
