package cisuite

import (
	"errors"
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// goneMemory is memory without a direct view whose storage can go away.
type goneMemory struct {
	kit.CopyMemory
	isGone *atomic.Bool
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
	register := func(e *kit.End) (ci.Region, []byte) {
		b := make([]byte, n)
		m := goneMemory{kit.CopyMemory{B: b}, &isGone}
		mr, err := e.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
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
	isGone.Store(true)
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{b.SGE(0, n)}})
	p.A.Send(p.A.SendWR(2, 0, 100))
	p.A.CQ.WaitStatus(2, ci.WCRemOpErr)
	p.B.RecvCQ.WaitStatus(1, local...)
	p.B.Becomes(ci.QPError)
	other.A.Exchange(other.B, 100)
}
