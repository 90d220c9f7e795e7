package mutant

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Placement returns mutants with faults in ATOMIC WRITE and FLUSH.
func Placement() []Mutant {
	word := func(name, breaks, does string, f func(w *ci.SendWR)) Mutant {
		return Of("atomic-write."+name, breaks, does, ofOp(ci.OpAtomicWrite, f)).Needing(ci.CapAtomicWrite)
	}
	flush := func(name, breaks, does string, f func(w *ci.SendWR)) Mutant {
		return Of("flush."+name, breaks, does, ofOp(ci.OpFlush, func(w *ci.SendWR) {
			if w.Ext != nil {
				x := *w.Ext
				w.Ext = &x
				f(w)
			}
		})).Needing(ci.CapFlush)
	}
	registers := func(name, breaks, does string, f func(c ci.MRCreate) ci.MRCreate) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{MRCreate: f}))
	}
	return []Mutant{
		word("neighbor", "CI-AtomicWrite-01", "an atomic write stores to the word behind the address",
			func(w *ci.SendWR) { w.Remote.Addr += 8 }),
		Of("atomic-write.as-write", "CI-AtomicWrite-01", "an atomic write completes as a write",
			tap.Poll(func(wc *ci.WC) {
				if wc.Op == ci.WCAtomicWrite {
					wc.Op = ci.WCWrite
				}
			})).Needing(ci.CapAtomicWrite),
		word("aligns", "CI-AtomicWrite-02", "an atomic write ignores the low bits of its address",
			func(w *ci.SendWR) { w.Remote.Addr &^= 7 }),
		word("long", "CI-AtomicWrite-03", "an atomic write stores the first 8 bytes of a longer list",
			func(w *ci.SendWR) {
				if len(w.SGL) == 1 {
					w.SGL[0].Length = min(w.SGL[0].Length, 8)
				}
			}),
		registers("atomic-write.any-region", "CI-AtomicWrite-04", "regions that grant reading grant atomic writes",
			func(c ci.MRCreate) ci.MRCreate {
				if c.Access&ci.RemoteRead != 0 {
					c.Access |= ci.RemoteWrite | ci.LocalWrite
				}
				return c
			}).Needing(ci.CapAtomicWrite),
		Of("flush.as-read", "CI-RemoteFlush-01", "a flush completes as a read", tap.Poll(func(wc *ci.WC) {
			if wc.Op == ci.WCFlush {
				wc.Op = ci.WCRead
			}
		})).Needing(ci.CapFlush),
		flush("one-type", "CI-RemoteFlush-02", "a flush of both types needs the right to one",
			func(w *ci.SendWR) {
				if w.Ext.Flush.Types == ci.FlushRights {
					w.Ext.Flush.Types = ci.FlushGlobal
				}
			}),
		flush("whole", "CI-RemoteFlush-02", "the range of a flush is not checked",
			func(w *ci.SendWR) { w.Ext.Flush.Region = w.Ext.Flush.Types == ci.FlushGlobal }),
		Of("flush.any-qp", "CI-RemoteFlush-02", "every QP grants flushes",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAccess != 0 {
					a.Access |= ci.FlushRights
				}
			})).Needing(ci.CapFlush),
		flush("no-type", "CI-RemoteFlush-03", "a flush of no type is one of FlushGlobal",
			func(w *ci.SendWR) {
				if w.Ext.Flush.Types == 0 {
					w.Ext.Flush.Types = ci.FlushGlobal
				}
			}),
		flush("volatile", "CI-RemoteFlush-04", "a flush of both types makes nothing persistent",
			func(w *ci.SendWR) {
				if w.Ext.Flush.Region {
					w.Ext.Flush.Types &^= ci.FlushPersistent
				}
			}).Needing(ci.CapFlush | ci.CapFlushPersistent),
		registers("flush.any-memory", "CI-RemoteFlush-05", "FlushPersistent is ignored for ordinary memory",
			func(c ci.MRCreate) ci.MRCreate {
				if _, ok := c.Memory.(ci.PersistentMemory); !ok {
					c.Access &^= ci.FlushPersistent
				}
				return c
			}).Needing(ci.CapFlush | ci.CapFlushPersistent),
	}
}
