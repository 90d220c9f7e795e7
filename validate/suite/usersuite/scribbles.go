package usersuite

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Processes that overwrite the memory that a driver shares with them. (SAS 2.4.)
var scribbles = area().Needing(validate.Needs{Caps: ci.CapUser, Attr: manyObjects})

// sharedMemory is memory that a driver shares with a process.
type sharedMemory struct {
	f *os.File
	b []byte
}

// parts returns copies of the parts that are in use, by offset.
func (m *sharedMemory) parts(t *validate.T) map[int][]byte {
	list, err := usedParts(m.f, len(m.b))
	if err != nil {
		t.Harness("the used parts of shared memory: %v", err)
	}
	copies := map[int][]byte{}
	for _, p := range list {
		copies[p[0]] = bytes.Clone(m.b[p[0]:p[1]])
	}
	return copies
}

// changed returns the offsets of the 32-bit words that are not as in the copies.
func (m *sharedMemory) changed(before map[int][]byte) (list []int) {
	for _, from := range slices.Sorted(maps.Keys(before)) {
		b := before[from]
		for at := 0; at+4 <= len(b); at += 4 {
			if !bytes.Equal(b[at:at+4], m.b[from+at:from+at+4]) {
				list = append(list, from+at)
			}
		}
	}
	return list
}

// sharing returns a user library that records the memory that the driver shares when it opens an adapter.
func sharing(t *validate.T, lib *ci.UserLibrary, found *[]*sharedMemory) *ci.UserLibrary {
	x := *lib
	post := x.OpenCA.Post
	x.OpenCA.Post = func(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
		if err == nil && ub != nil {
			for _, f := range ub.OutFiles {
				if m := shared(t, f); m != nil {
					*found = append(*found, m)
				}
			}
		}
		if post == nil {
			return nil
		}
		return post(a, ub, err)
	}
	return &x
}

// shared maps the memory of a descriptor. It returns nil for a descriptor that is not shared memory.
func shared(t *validate.T, f *os.File) *sharedMemory {
	i, err := f.Stat()
	if err != nil || !i.Mode().IsRegular() || i.Size() == 0 {
		return nil
	}
	d, err := duplicated(f)
	if err != nil {
		t.Harness("a descriptor of shared memory: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	b, unmap, err := mapFile(d, int(i.Size()))
	if err != nil {
		t.Harness("mapping shared memory: %v", err)
	}
	t.Cleanup(unmap)
	return &sharedMemory{d, b}
}

// manyObjects is what cases need that connect many pairs of QPs of processes.
var manyObjects = validate.Within(ci.CAAttr{MaxPDs: 32, MaxQPs: 64, MaxCQs: 64, MaxMRs: 128})

var _ = scribbles.Add("user.library.requests", "requests in shared queues with a wrong word", libraryRequests,
	req.SAS2_4_10)

// hostileStage is two applications of one daemon. The second overwrites its shared memory.
type hostileStage struct {
	*stage
	victim *kit.Pair
	app    *app // the victim's
	lib    *ci.UserLibrary
	found  []*sharedMemory
}

// newHostileStage starts both applications. The lower half of the victim's buffers is blank.
func newHostileStage(t *validate.T) *hostileStage {
	lib := t.UserLibrary()
	h := &hostileStage{stage: startStage(t, new(trace), nil)}
	h.app = h.with(lib)
	h.victim = h.app.pair()
	h.victim.A.Buf.Blank()
	h.victim.B.Buf.Blank()
	h.lib = sharing(t, lib, &h.found)
	return h
}

// check tests that the victim is as before.
func (h *hostileStage) check(what string) {
	h.victim.A.Exchange(h.victim.B, 100)
	h.victim.B.Exchange(h.victim.A, 2000)
	for _, e := range []*kit.End{h.victim.A, h.victim.B} {
		half := e.Buf.Bytes[:len(e.Buf.Bytes)/2]
		i := slices.IndexFunc(half, func(c byte) bool { return c != 0xee })
		kit.True(h.t, i < 0, "memory of another process after "+what, "unchanged", "byte %d is changed", i)
	}
}

// end ends both applications.
func (h *hostileStage) end(hostile *app) {
	hostile.cut()
	h.await("the daemon after the hostile application was cut", "one client", func() string {
		if len(h.core.Sessions()) == 1 {
			return ""
		}
		return "another number"
	})
	h.check("the end of a process that overwrote its shared memory")
	h.app.cut()
	h.gone("the daemon after both applications were cut")
}

// requestValues are values for a word of a request: the smallest and the largest numbers, and codes of both ends of
// their range.
var requestValues = []uint32{0, 1, 0x7f, 0x80, 0x81, 0xff, 0x8000, 0x01000000, 0x7fffffff, 0x80000000, 0xffffffff}

// requestOf returns one of four kinds of requests.
func requestOf(p *kit.Pair, kind, inline int) ci.SendWR {
	switch kind % 4 {
	case 0:
		return p.A.SendWR(1, 0, 32)
	case 1:
		return p.A.RDMA(ci.OpWrite, 1, 0, 32, p.B, 64)
	case 2:
		return p.A.RDMA(ci.OpRead, 1, 0, 32, p.B, 64)
	}
	wr := p.A.SendWR(1, 0, 0)
	wr.SGL, wr.Inline = nil, make([]byte, inline)
	for i := range wr.Inline {
		wr.Inline[i] = byte(i + 1)
	}
	return wr
}

func libraryRequests(t *validate.T) {
	h := newHostileStage(t)
	a := h.with(h.lib)
	x := a.open()
	if len(h.found) == 0 {
		t.Skip("the driver shares no memory with its user library")
	}
	c := kit.Options(x, x, kit.Type(ci.RC), kit.Inline(min(24, t.Attr().MaxInline)))
	wcs := make([]ci.WC, 8)
	const rounds = 16
	for round := range rounds {
		p := &kit.Pair{A: x.End(c), B: x.End(c)}
		kit.Connect(p.A.QP, p.B.QP)
		p.B.Recv(p.B.RecvWR(1, 0, 64))
		// In SQD the request stays in the queue, and in RTS it is executed.
		kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}), "QP.Modify to SQD")
		m := h.found[round%len(h.found)]
		before := m.parts(t)
		p.A.Send(requestOf(p, round, c.Caps.MaxInline))
		changed := m.changed(before)
		if len(changed) == 0 {
			t.Skip("the driver's user library does not post to the memory that the driver shares with it")
		}
		n := t.Rand().IntN(len(changed))
		v := requestValues[t.Rand().IntN(len(requestValues))]
		t.Step("round %d: word %d of %d that the post has changed is %#x", round+1, n+1, len(changed), v)
		binary.NativeEndian.PutUint32(m.b[changed[n]:], v)
		_ = p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}) // the driver may have moved the QP to Error
		for _, q := range []ci.CQ{p.A.CQ.CQ, p.B.RecvCQ.CQ} {
			_, _ = q.Poll(wcs)
		}
		for _, e := range []*kit.End{p.A, p.B} {
			kit.Destroy(t, e.QP.QP, "QP")
		}
	}
	h.check("requests with a wrong word")
	h.end(a)
}

var _ = scribbles.Add("user.library.receives", "receives in shared queues with a wrong word, of each service",
	libraryReceives, req.SAS2_4_10)

// libraryReceives changes each word of a posted receive, and sends a message to it. A request of a reliable connection
// ends, with success or an error. A receive that is in error for what it says is so for each service.
func libraryReceives(t *validate.T) {
	h := newHostileStage(t)
	a := h.with(h.lib)
	x := a.open()
	if len(h.found) == 0 {
		t.Skip("the driver shares no memory with its user library")
	}
	// post creates a pair of QPs with one receive, and returns the words of shared memory that the post has changed,
	// and their distances from the last. Another word may have changed meanwhile, such as a counter of the daemon: the
	// words of two posts correspond if their distances do.
	post := func(typ ci.QPType) (*kit.Pair, [][]byte, []int) {
		c := kit.Options(x, x, kit.Type(typ), kit.RNRRetry(0))
		p := &kit.Pair{A: x.End(c), B: x.End(c)}
		kit.Connect(p.A.QP, p.B.QP)
		p.Address()
		var before []map[int][]byte
		for _, m := range h.found {
			before = append(before, m.parts(t))
		}
		p.B.Recv(p.B.RecvWR(1, 0, 64))
		var words [][]byte
		var shape []int
		for k, m := range h.found {
			changed := m.changed(before[k])
			for _, at := range changed {
				words = append(words, m.b[at:at+4])
				shape = append(shape, changed[len(changed)-1]-at)
			}
		}
		if len(words) == 0 {
			t.Skip("the driver's user library does not post to the memory that the driver shares with it")
		}
		return p, words, shape
	}
	end := func(p *kit.Pair) {
		for _, e := range []*kit.End{p.A, p.B} {
			for _, o := range []ci.Object{e.QP.QP, e.CQ.CQ, e.RecvCQ.CQ, e.Buf.MR, e.AV, e.PD} {
				if !ci.IsNil(o) {
					kit.Destroy(t, o, "object of a pair")
				}
			}
		}
	}
	p, words, _ := post(ci.RC)
	count := len(words)
	end(p)
	broken := []ci.WCStatus{ci.WCLocalOpErr, ci.WCLocalProtErr, ci.WCLocalLenErr}
	for _, v := range []uint32{0xffffffff, 0x7fffffff} {
		for n := range count {
			t.Step("word %d of %d that a post of a receive has changed is %#x", n+1, count, v)
			p, words, shape := post(ci.RC)
			if n >= len(words) {
				end(p)
				continue
			}
			binary.NativeEndian.PutUint32(words[n], v)
			p.A.Send(p.A.SendWR(2, 0, 32))
			st := p.A.CQ.WaitStatus(2, ci.WCSuccess, ci.WCRNRRetryErr, ci.WCRemInvalidReqErr, ci.WCRemOpErr).Status
			isBroken := st == ci.WCRemOpErr || st == ci.WCRemInvalidReqErr
			var got ci.WCStatus
			if isBroken {
				wc := p.B.RecvCQ.Wait(1)[0]
				got = wc.Status
				kit.True(t, slices.Contains(broken, got), "receive of a SEND that fails", "an error of the receive",
					"%s", kit.Completions([]ci.WC{wc}))
				p.B.Becomes(ci.QPError)
			}
			end(p)
			if got != ci.WCLocalOpErr {
				continue
			}
			for _, typ := range []ci.QPType{ci.UC, ci.UD} {
				if typ == ci.UC && !t.Claims().Has(ci.CapUC) || typ == ci.UD && !t.Claims().Has(ci.CapUD|ci.CapAV) {
					continue
				}
				p, words, same := post(typ)
				if slices.Equal(same, shape) {
					binary.NativeEndian.PutUint32(words[n], v)
					p.A.Send(p.A.SendWR(2, 0, 16))
					p.A.CQ.WaitOK(2)
					wc := p.B.RecvCQ.Wait(1)[0]
					kit.Equal(t, "status of a receive of "+typ.String()+" with the same wrong word", wc.Status, got)
					p.B.Becomes(ci.QPError)
				}
				end(p)
			}
		}
	}
	h.check("receives with a wrong word")
	h.end(a)
}

var _ = scribbles.Needing(validate.Needs{Caps: ci.CapUser}).Add("user.library.noise",
	"a process fills its shared memory with noise", func(t *validate.T) {
		h := newHostileStage(t)
		for round, fill := range []func(uint32) uint32{
			func(uint32) uint32 { return 0xffffffff },
			func(v uint32) uint32 { return ^v },
			func(uint32) uint32 { return t.Rand().Uint32() },
			func(v uint32) uint32 { return v + 1 },
		} {
			t.Step("round %d", round+1)
			h.found = nil
			a := h.with(h.lib)
			x := a.open()
			if len(h.found) == 0 {
				t.Skip("the driver shares no memory with its user library")
			}
			c := kit.Options(x, x, kit.Type(ci.RC))
			p := &kit.Pair{A: x.End(c), B: x.End(c)}
			kit.Connect(p.A.QP, p.B.QP)
			p.A.Exchange(p.B, 100)
			p.B.Recv(p.B.RecvWRs(4, 32)...)
			p.A.Send(p.A.SendWRs(4)...)
			for _, m := range h.found {
				for from, b := range m.parts(t) {
					for at := 0; at+4 <= len(b); at += 4 {
						binary.NativeEndian.PutUint32(m.b[from+at:], fill(binary.NativeEndian.Uint32(b[at:])))
					}
				}
			}
			// Each call may succeed or fail, but it must return.
			wcs := make([]ci.WC, 16)
			for range 2 {
				for _, e := range []*kit.End{p.A, p.B} {
					_, _ = e.CQ.CQ.Poll(wcs)
					_, _ = e.RecvCQ.CQ.Poll(wcs)
					_ = e.CQ.CQ.Notify(ci.NotifyNext)
					_, _ = e.QP.QP.PostSend(e.SendWRs(3))
					_, _ = e.QP.QP.PostRecv(e.RecvWRs(3, 32))
				}
			}
			h.check("noise in the shared memory of a process")
			_ = p.A.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset})
			_ = p.B.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
			for _, e := range []*kit.End{p.A, p.B} {
				_ = e.QP.QP.Destroy()
			}
			if t.Claims().Has(ci.CapResizeCQ) {
				_, _ = p.A.CQ.CQ.Resize(ci.CQResize{Size: 200})
			}
			a.cut()
		}
		h.await("the daemon after hostile applications were cut", "one client", func() string {
			if len(h.core.Sessions()) == 1 {
				return ""
			}
			return "another number"
		})
		h.check("the end of processes that overwrote their shared memory")
		h.app.cut()
		h.gone("the daemon after all applications were cut")
	}, req.SAS2_4_10)
