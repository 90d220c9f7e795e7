package cisuite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// placementCases are the cases of ATOMIC WRITE and FLUSH. (IBTA volume 1, release 1.6, annex A19.)
var placementCases = &validate.Area{Feature: validate.FeatureRC}

var (
	atomicWriteCases = placementCases.Needing(validate.Needs{Caps: ci.CapAtomicWrite})
	flushCases       = placementCases.Needing(validate.Needs{Caps: ci.CapFlush})
	persistCases     = placementCases.Needing(validate.Needs{Caps: ci.CapFlush | ci.CapFlushPersistent})
)

// atomicWrite returns a signaled ATOMIC WRITE of n bytes from offset 128 of A's buffer to offset off of B's.
func atomicWrite(p *kit.Pair, n, off int) ci.SendWR {
	return p.A.RDMA(ci.OpAtomicWrite, 1, 128, n, p.B, off)
}

var _ = atomicWriteCases.Add("atomic-write.stores", "words of a list and inline", atomicWriteWorks,
	atomicWriteCases.Must("CI-AtomicWrite-01", "IBTA A19", "ATOMIC WRITE",
		"An OpAtomicWrite stores its 8 bytes at the remote address, and nothing else. Its completion has the "+
			"operation WCAtomicWrite. Every QP takes the 8 bytes inline."))

func atomicWriteWorks(t *validate.T) {
	p := kit.RC(t)
	for i, inline := range kit.Variants(t, "inline", []bool{false, true, false}) {
		p.B.Buf.Blank()
		word := binary.NativeEndian.AppendUint64(nil, t.Rand().Uint64())
		w := atomicWrite(p, 8, 64)
		if inline {
			w.SGL, w.Inline = nil, word
		} else {
			copy(p.A.Buf.Bytes[128:], word)
		}
		p.A.Send(w)
		wc := p.A.CQ.WaitOK(1)[0]
		settle(p)
		where := fmt.Sprintf("atomic write %d, inline %v: ", i+1, inline)
		kit.Equal(t, where+"WC.Op", wc.Op, ci.WCAtomicWrite)
		p.B.Buf.WantOnly(t, where+"memory of the peer", 64, word)
	}
}

var _ = atomicWriteCases.Add("atomic-write.misaligned", "addresses that are not a multiple of 8", func(t *validate.T) {
	p := kit.RC(t)
	for _, off := range kit.Variants(t, "offset", []int{1, 4, 7}) {
		p.B.Buf.Blank()
		p.WantStatus("an atomic write to a misaligned address", atomicWrite(p, 8, 64+off), ci.WCRemInvalidReqErr)
		p.B.Buf.WantOnly(t, "memory of the peer after an atomic write to a misaligned address", 0, nil)
	}
}, atomicWriteCases.Must("CI-AtomicWrite-02", "IBTA A19", "ATOMIC WRITE, alignment",
	"An OpAtomicWrite to an address that is not a multiple of 8 completes with remote invalid request and changes "+
		"nothing."))

var _ = atomicWriteCases.Add("atomic-write.length", "lists of other than 8 bytes", func(t *validate.T) {
	p := kit.RC(t)
	for _, n := range kit.Variants(t, "bytes", []int{0, 4, 7, 9, 16}) {
		p.B.Buf.Blank()
		p.WantStatus(fmt.Sprintf("an atomic write of %d bytes", n), atomicWrite(p, n, 64), ci.WCLocalLenErr,
			ci.WCLocalOpErr)
		p.B.Buf.WantOnly(t, fmt.Sprintf("memory of the peer after an atomic write of %d bytes", n), 0, nil)
	}
	w := atomicWrite(p, 8, 64)
	w.SGL, w.Inline = nil, make([]byte, 4)
	n, err := p.A.PostSend([]ci.SendWR{w})
	kit.WantTaken(t, "PostSend of an atomic write of 4 bytes inline", n, err, 0, ci.InvalidParameter)
}, atomicWriteCases.Must("CI-AtomicWrite-03", "IBTA A19", "ATOMIC WRITE, length",
	"An OpAtomicWrite of other than 8 bytes completes with a local error or, with inline data, is rejected with "+
		"InvalidParameter."))

var ciAtomicWriteRights = atomicWriteCases.Must("CI-AtomicWrite-04", "IBTA A19", "ATOMIC WRITE, rights",
	"An OpAtomicWrite needs RemoteWrite: without it at the region it completes with remote access error, and without "+
		"it at the QP with remote invalid request.")

// readable are rights without RemoteWrite.
const readable = ci.LocalWrite | ci.RemoteRead

// atomicWriteDenied expects an atomic write to fail and to change nothing.
func atomicWriteDenied(p *kit.Pair, where string, want ci.WCStatus) {
	p.B.Buf.Blank()
	p.WantStatus("an atomic write to a "+where+" without RemoteWrite", atomicWrite(p, 8, 64), want)
	p.B.Buf.WantOnly(p.B.CA.T, "memory after an atomic write to a "+where+" without RemoteWrite", 0, nil)
}

var _ = atomicWriteCases.Add("atomic-write.region-rights", "a region without RemoteWrite", func(t *validate.T) {
	atomicWriteDenied(kit.RC(t, kit.With(func(c *kit.Config) { c.BufAccess = readable })), "region", ci.WCRemAccessErr)
}, ciAtomicWriteRights)

var _ = atomicWriteCases.Add("atomic-write.qp-rights", "a QP without RemoteWrite", func(t *validate.T) {
	atomicWriteDenied(kit.RC(t, kit.With(func(c *kit.Config) { c.Access = readable })), "QP", ci.WCRemInvalidReqErr)
}, ciAtomicWriteRights)

// flush returns a signaled FLUSH of n bytes at offset off of a peer's region.
func flush(id uint64, types ci.Access, region ci.Region, off uint64, n uint32) ci.SendWR {
	return ci.SendWR{ID: id, Op: ci.OpFlush, Flags: ci.SendSignaled, Remote: region.Remote(off),
		Ext: &ci.SendExt{Flush: ci.Flush{Types: types, Length: n}}}
}

// flushable grants FlushGlobal as well.
var flushable = kit.Access(kit.AllAccess | ci.FlushGlobal)

var _ = flushCases.Add("flush.global", "a range and a region after a write", flushWorks,
	flushCases.Must("CI-RemoteFlush-01", "IBTA A19", "FLUSH, global visibility",
		"When an OpFlush completes, with the operation WCFlush, the peer's memory holds what earlier writes of the QP "+
			"have written."))

func flushWorks(t *validate.T) {
	p := kit.RC(t, flushable)
	for _, whole := range kit.Variants(t, "whole region", []bool{false, true}) {
		p.B.Buf.Blank()
		data := kit.Random(t, p.A.Buf.Bytes[:3000])
		w := flush(2, ci.FlushGlobal, p.B.Buf.Region, 96, 3000)
		if whole {
			w.Remote.Addr, w.Ext.Flush = 0, ci.Flush{Types: ci.FlushGlobal, Region: true}
		}
		write := p.A.RDMA(ci.OpWrite, 1, 0, len(data), p.B, 96)
		write.Flags = 0
		p.A.Send(write, w)
		kit.Equal(t, "WC.Op of a flush", p.A.CQ.WaitOK(2)[0].Op, ci.WCFlush)
		p.B.Buf.WantOnly(t, "memory of the peer when a flush has completed", 96, data)
	}
}

var ciFlushRights = flushCases.Must("CI-RemoteFlush-02", "IBTA A19", "FLUSH, rights and bounds",
	"An OpFlush of a type that the region does not grant, or of a range that is not inside it, completes with remote "+
		"access error; of a type that the QP does not grant, with remote invalid request.")

var _ = flushCases.Add("flush.region-rights", "types and ranges that the region does not grant", func(t *validate.T) {
	p := kit.RC(t, kit.With(func(c *kit.Config) { c.Access = kit.AllAccess | ci.FlushRights }))
	plain := p.B.Buf.Region
	granted := p.B.CA.Buf(p.B.PD, 4096, kit.AllAccess|ci.FlushGlobal).Region
	p.WantStatus("a flush", flush(1, ci.FlushGlobal, granted, 0, 4096), ci.WCSuccess)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		w    ci.SendWR
	}{
		{"of a region without rights to flush", flush(1, ci.FlushGlobal, plain, 0, 64)},
		{"of both types of a region with one of them", flush(1, ci.FlushRights, granted, 0, 64)},
		{"of the other type", flush(1, ci.FlushPersistent, granted, 0, 64)},
		{"of a byte too much", flush(1, ci.FlushGlobal, granted, 4095, 2)},
		{"of bytes before the region", flush(1, ci.FlushGlobal, granted, ^uint64(0), 8)},
	}) {
		p.WantStatus("a flush "+x.what, x.w, ci.WCRemAccessErr)
	}
}, ciFlushRights)

var _ = flushCases.Add("flush.qp-rights", "a QP that does not grant flushes", func(t *validate.T) {
	p := kit.RC(t, kit.With(func(c *kit.Config) { c.BufAccess = kit.AllAccess | ci.FlushGlobal }))
	p.WantStatus("a flush to a QP without FlushGlobal", flush(1, ci.FlushGlobal, p.B.Buf.Region, 0, 64),
		ci.WCRemInvalidReqErr)
}, ciFlushRights)

var _ = flushCases.Add("flush.no-type", "a flush of no type, or of a right that is none", func(t *validate.T) {
	p := kit.RC(t, flushable)
	for _, types := range kit.Variants(t, "types", []ci.Access{0, ci.RemoteWrite, ci.FlushGlobal | ci.RemoteRead}) {
		n, err := p.A.PostSend([]ci.SendWR{flush(1, types, p.B.Buf.Region, 0, 64)})
		kit.WantTaken(t, fmt.Sprintf("PostSend of a flush of types %#x", types), n, err, 0, ci.InvalidParameter)
	}
	w := flush(1, ci.FlushGlobal, p.B.Buf.Region, 0, 64)
	w.Ext = nil
	n, err := p.A.PostSend([]ci.SendWR{w})
	kit.WantTaken(t, "PostSend of a flush without SendExt", n, err, 0, ci.InvalidParameter)
	p.A.Exchange(p.B, 20)
}, flushCases.Must("CI-RemoteFlush-03", "IBTA A19", "FLUSH, placement type",
	"PostSend of an OpFlush without Ext, or whose types are none or have other rights, fails with InvalidParameter."))

// persistent is memory that records what was made persistent, and what it held then.
type persistent struct {
	ci.Memory
	mu   sync.Mutex
	kept []byte
}

// Persist implements ci.PersistentMemory.
func (m *persistent) Persist(off, n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.ReadAt(m.kept[off:off+n], int64(off))
	return err
}

func (m *persistent) snapshot() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.kept)
}

var _ = persistCases.Add("flush.persistent", "what is persistent when a flush has completed", persistWorks,
	persistCases.Must("CI-RemoteFlush-04", "IBTA A19", "FLUSH, persistence",
		"When an OpFlush of FlushPersistent completes, Persist of the region's memory has been called for the flushed "+
			"bytes, after earlier writes of the QP."))

func persistWorks(t *validate.T) {
	p := kit.RC(t, kit.With(func(c *kit.Config) { c.Access = kit.AllAccess | ci.FlushRights }))
	const size = 4096
	m := &persistent{Memory: ci.Bytes(make([]byte, size)), kept: make([]byte, size)}
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess | ci.FlushRights})
	kit.OK(t, err, "PD.RegisterMR of ci.PersistentMemory with FlushPersistent")
	region := kit.Own(t, mr, "MR").Region()
	for _, x := range kit.Variants(t, "", []struct {
		types ci.Access
		whole bool
	}{{ci.FlushPersistent, false}, {ci.FlushRights, true}}) {
		data := kit.Random(t, p.A.Buf.Bytes[:1000])
		write := ci.SendWR{ID: 1, Op: ci.OpWrite, SGL: p.A.Buf.SGL(0, len(data)), Remote: region.Remote(72)}
		w := flush(2, x.types, region, 72, uint32(len(data)))
		w.Ext.Flush.Region = x.whole
		p.A.Send(write, w)
		p.A.CQ.WaitOK(2)
		kit.SameBytes(t, "persistent bytes when a flush has completed", m.snapshot()[72:72+len(data)], data)
	}
}

var _ = persistCases.Add("flush.not-persistent", "FlushPersistent on memory that is not persistent",
	func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: ci.FlushPersistent})
		kit.WantRefused(t, mr, err, "PD.RegisterMR of ordinary memory with FlushPersistent", ci.InvalidParameter)
	}, persistCases.Must("CI-RemoteFlush-05", "CI memory model", "package ci, PersistentMemory",
		"RegisterMR of memory that is not ci.PersistentMemory fails with InvalidParameter if the rights include "+
			"FlushPersistent."))
