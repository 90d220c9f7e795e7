package cisuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// goneMemory is memory without a direct view whose storage can go away.
type goneMemory struct {
	kit.CopyMemory
	isGone *atomic.Bool
}

// failure is how failingMemory fails.
type failure uint32

const (
	works    failure = iota
	isShort          // copies are shorter than demanded, without an error
	lastByte         // copies of the last byte fail
)

// failingMemory is memory without a direct view that fails in part. Its copier copies several ranges at once, for
// drivers that look for it.
type failingMemory struct {
	kit.CopyMemory
	now *atomic.Uint32
}

func (m failingMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.access(p, off, m.CopyMemory.ReadAt)
}

func (m failingMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.access(p, off, m.CopyMemory.WriteAt)
}

// Copier implements ci.BatchMemory.
func (m failingMemory) Copier() ci.Copier { return failingCopier{m.now} }

// failingCopier copies spans of failingMemory.
type failingCopier struct{ now *atomic.Uint32 }

// CopySpans implements ci.Copier.
func (c failingCopier) CopySpans(list []ci.Span, write bool) (int, error) {
	for i, s := range list {
		f := s.Memory.ReadAt
		if write {
			f = s.Memory.WriteAt
		}
		if _, err := f(s.Bytes, int64(s.Off)); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

func (m failingMemory) access(p []byte, off int64, f func([]byte, int64) (int, error)) (int, error) {
	switch failure(m.now.Load()) {
	case isShort:
		n, err := f(p[:len(p)/2], off)
		if n < len(p) && err == nil {
			err = errGone
		}
		return n, err
	case lastByte:
		if len(p) > 0 && uint64(off)+uint64(len(p)) == m.Len() {
			return 0, errGone
		}
	}
	return f(p, off)
}

var errGone = errors.New("the storage no longer exists")

func (g goneMemory) ReadAt(p []byte, off int64) (int, error) {
	if g.isGone.Load() {
		return 0, errGone
	}
	return g.CopyMemory.ReadAt(p, off)
}

func (g goneMemory) WriteAt(p []byte, off int64) (int, error) {
	if g.isGone.Load() {
		return 0, errGone
	}
	return g.CopyMemory.WriteAt(p, off)
}

// mrMemoryGone uses memory that fails as source and as target, at both ends of a connection.
func mrMemoryGone(t *validate.T) {
	const n = 3000
	p := kit.RC(t, kit.Size(8192))
	other := p.More(false)
	var isGone atomic.Bool
	access := kit.AllAccess
	if t.Attr().Atomicity != ci.AtomicNone {
		access |= ci.RemoteAtomic
	}
	register := func(e *kit.End) (ci.Region, []byte) {
		b := make([]byte, n)
		m := goneMemory{kit.CopyMemory{B: b}, &isGone}
		mr, err := e.PD.RegisterMR(ci.MRCreate{Memory: m, Access: access})
		if err != nil {
			kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
			t.Skip("memory without a direct view is rejected")
		}
		return kit.Own(t, mr, "MR").Region(), b
	}
	a, _ := register(p.A)
	b, target := register(p.B)
	local := []ci.WCStatus{ci.WCLocalProtErr, ci.WCLocalOpErr}
	remote := []ci.WCStatus{ci.WCRemOpErr, ci.WCRemAccessErr}
	write, read := p.Request(ci.OpWrite, n, b.Remote(0)), p.Request(ci.OpRead, n, b.Remote(0))
	from := ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{a.SGE(0, n)}, Remote: p.B.Buf.Remote(0)}
	into := ci.SendWR{Op: ci.OpRead, SGL: []ci.SGE{a.SGE(0, n)}, Remote: p.B.Buf.Remote(0)}
	for _, gone := range []bool{false, true, false} {
		isGone.Store(gone)
		for _, x := range []struct {
			what string
			w    ci.SendWR
			want []ci.WCStatus
		}{
			{"RDMA WRITE to", write, remote}, {"RDMA READ from", read, remote},
			{"RDMA WRITE out of", from, local}, {"RDMA READ into", into, local},
		} {
			if !gone {
				x.want = []ci.WCStatus{ci.WCSuccess}
			}
			p.WantStatus(fmt.Sprintf("%s memory that fails: %v", x.what, gone), x.w, x.want...)
		}
	}
	kit.SameBytes(t, "memory that works again", target, p.A.Buf.Bytes[:n])
	if access&ci.RemoteAtomic != 0 {
		// Remote atomics need Slice or an AtomicMemory. An adapter that reads and writes the word itself may execute
		// them.
		const what = "fetch-and-add to memory without a direct view"
		add, want := p.Request(ci.OpFetchAdd, 8, b.Remote(0)), slices.Clone(target)
		add.Atomic.Compare = 3
		old := binary.NativeEndian.Uint64(want)
		if st := p.Try(add); st == ci.WCSuccess {
			kit.Equal(t, "result of a "+what, binary.NativeEndian.Uint64(p.A.Buf.Bytes), old)
			binary.NativeEndian.PutUint64(want, old+3)
		} else {
			kit.Equal(t, "status of a "+what, st, ci.WCRemAccessErr)
		}
		kit.SameBytes(t, "memory after a "+what, target, want)
		isGone.Store(true)
		result := ci.SendWR{Op: ci.OpFetchAdd, SGL: []ci.SGE{a.SGE(0, 8)}, Remote: p.B.Buf.Remote(0),
			Atomic: ci.Atomic{Compare: 1}}
		p.WantStatus("fetch-and-add with its result to memory that fails", result, local...)
		isGone.Store(false)
		p.WantStatus("fetch-and-add with its result to memory that works again", result, ci.WCSuccess)
	}
	isGone.Store(true)
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{b.SGE(0, n)}})
	p.A.Send(p.A.SendWR(2, 0, 100))
	p.A.CQ.WaitStatus(2, ci.WCRemOpErr)
	p.B.RecvCQ.WaitStatus(1, local...)
	p.B.Becomes(ci.QPError)
	other.A.Exchange(other.B, 100)
}

var _ = mrCases.Add("mr.memory.part", "memory whose copies are too short, or fail at its last byte", mrMemoryPart,
	ciRegisterMR11)

// mrMemoryPart uses memory that fails in part as source and as target, at both ends of a connection.
func mrMemoryPart(t *validate.T) {
	const n = 2997 // the last aligned 8 bytes are not the last bytes
	p := kit.RC(t, kit.Size(8192))
	var now atomic.Uint32
	register := func(e *kit.End) ci.Region {
		m := failingMemory{kit.CopyMemory{B: kit.Pages(n, 4096)}, &now}
		mr, err := e.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
		if err != nil {
			kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
			t.Skip("memory without a direct view is rejected")
		}
		return kit.Own(t, mr, "MR").Region()
	}
	a, b := register(p.A), register(p.B)
	local := []ci.WCStatus{ci.WCLocalProtErr, ci.WCLocalOpErr}
	remote := []ci.WCStatus{ci.WCRemOpErr, ci.WCRemAccessErr}
	pieces := p.Request(ci.OpWrite, n, b.Remote(0))
	pieces.SGL = []ci.SGE{p.A.Buf.SGE(0, 100), p.A.Buf.SGE(500, 300), p.A.Buf.SGE(1000, 7), p.A.Buf.SGE(2000, n-407)}
	for _, how := range kit.Variants(t, "failure", []failure{works, isShort, lastByte, works}) {
		now.Store(uint32(how))
		for _, x := range []struct {
			what string
			w    ci.SendWR
			want []ci.WCStatus
		}{
			{"RDMA WRITE to", p.Request(ci.OpWrite, n, b.Remote(0)), remote},
			{"RDMA WRITE of pieces to", pieces, remote},
			{"RDMA READ from", p.Request(ci.OpRead, n, b.Remote(0)), remote},
			{"RDMA WRITE out of", ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{a.SGE(0, n)}, Remote: p.B.Buf.Remote(0)},
				local},
			{"RDMA READ into", ci.SendWR{Op: ci.OpRead, SGL: []ci.SGE{a.SGE(0, n)}, Remote: p.B.Buf.Remote(0)}, local},
		} {
			if how == works {
				x.want = []ci.WCStatus{ci.WCSuccess}
			}
			p.WantStatus(fmt.Sprintf("%s memory that fails in part (%d)", x.what, how), x.w, x.want...)
		}
	}
}

// heldMemory is memory without a direct view whose copies wait.
type heldMemory struct {
	kit.CopyMemory
	isHeld  *atomic.Bool
	entered chan struct{} // has room for one
	release chan struct{}
}

func (m heldMemory) hold() {
	if !m.isHeld.Load() {
		return
	}
	select {
	case m.entered <- struct{}{}:
	default:
	}
	<-m.release
}

func (m heldMemory) ReadAt(p []byte, off int64) (int, error) {
	m.hold()
	return m.CopyMemory.ReadAt(p, off)
}

func (m heldMemory) WriteAt(p []byte, off int64) (int, error) {
	m.hold()
	return m.CopyMemory.WriteAt(p, off)
}

// mrDestroyHeld destroys a region while a request of a peer copies to its memory, or from there.
func mrDestroyHeld(t *validate.T) {
	p := kit.RC(t)
	for _, op := range kit.Variants(t, "operation", []ci.SendOp{ci.OpWrite, ci.OpRead}) {
		m := heldMemory{kit.CopyMemory{B: make([]byte, 64)}, new(atomic.Bool), make(chan struct{}, 1),
			make(chan struct{})}
		release := sync.OnceFunc(func() { close(m.release) })
		t.Cleanup(release)
		mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
		if err != nil {
			kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
			t.Skip("memory without a direct view is rejected")
		}
		m.isHeld.Store(true)
		w := ci.SendWR{ID: 1, Op: op, Flags: ci.SendSignaled, SGL: p.A.Buf.SGL(0, 64), Remote: mr.Region().Remote(0)}
		t.Go(func() { _, _ = p.A.PostSend([]ci.SendWR{w}) }) // which may execute the request
		select {
		case <-m.entered:
		case <-time.After(t.Remaining()):
			t.Failf("a request to memory without a direct view", "the HCA copies", "no copy by the deadline")
		}
		destroyed := make(chan error, 1)
		t.Go(func() { destroyed <- mr.Destroy() })
		<-time.After(100 * time.Millisecond) // a driver that is right waits in any case
		select {
		case err := <-destroyed:
			t.Failf("MR.Destroy while the memory is accessed", "it returns after the access", "%s", kit.Describe(err))
		default:
		}
		release()
		kit.OK(t, <-destroyed, "MR.Destroy")
		p.A.CQ.Wait(1) // with success or an error
		p.Reconnect()
	}
}
