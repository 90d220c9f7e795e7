package mlx4_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
)

// wait returns when the failure has been reported.
func (o *single) wait(t *testing.T) {
	for deadline := time.After(testenv.Patience); ; {
		select {
		case e := <-o.events:
			if e.Type == ci.EventLocalFatal {
				return
			}
		case <-deadline:
			require.Fail(t, "no event")
		}
	}
}

// TestFlush checks that everything that was posted completes when the adapter fails or is unplugged, before the
// consumer learns of it, and that nothing can be posted from then on.
func TestFlush(t *testing.T) {
	for name, fail := range map[string]func(*single){
		"catastrophic error": func(o *single) { o.m.FailDevice() },
		"unplugged":          func(o *single) { o.f.Unplug() },
	} {
		t.Run(name, func(t *testing.T) {
			o := newSingle(t, false)
			w, err := o.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
			require.NoError(t, err)
			before := w.Key()
			sends := []ci.SendWR{
				{ID: 1, Op: ci.OpSend, SGL: o.sge()},
				{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: o.sge()},
			}
			_, err = o.qp.PostSend(sends)
			require.NoError(t, err)
			bind := ci.MWBind{MW: w, MR: o.mr, Key: before, Addr: o.mr.Region().Addr, Length: 8, Access: ci.RemoteRead}
			bind.Key, err = o.qp.BindMW(3, 0, bind)
			require.NoError(t, err)
			require.Equal(t, bind.Key, w.Key())
			recvs := []ci.RecvWR{{ID: 11, SGL: o.sge()}, {ID: 12, SGL: o.sge()}}
			_, err = o.qp.PostRecv(recvs)
			require.NoError(t, err)

			fail(o)
			o.wait(t)
			names := []string{<-o.done, <-o.done}
			assert.ElementsMatch(t, []string{"send", "recv"}, names, "one callback of each CQ")
			for _, x := range []struct {
				q   ci.CQ
				op  ci.WCOp
				ids []uint64
			}{{o.send, ci.WCSend, []uint64{1, 2, 3}}, {o.recv, ci.WCRecv, []uint64{11, 12}}} {
				waiting, err := x.q.Peek()
				require.NoError(t, err)
				require.Len(t, x.ids, waiting)
				wc := make([]ci.WC, 8)
				n, err := x.q.Poll(wc)
				require.NoError(t, err)
				require.Len(t, x.ids, n)
				for i, id := range x.ids {
					want := ci.WC{ID: id, Context: "qp", QPN: o.qp.Num(), Status: ci.WCFlushErr, Op: x.op}
					assert.Equal(t, want, wc[i])
				}
				require.NoError(t, x.q.Notify(ci.NotifyNext))
			}
			assert.Equal(t, before, w.Key(), "the bind was flushed")

			_, err = o.qp.PostSend(sends)
			require.ErrorIs(t, err, ci.InvalidState)
			_, err = o.qp.PostRecv(recvs)
			require.ErrorIs(t, err, ci.InvalidState)
			bind.Key = before
			_, err = o.qp.BindMW(3, 0, bind)
			require.ErrorIs(t, err, ci.InvalidState)
			require.Empty(t, o.done, "no other callback")
			o.close(t, w)
		})
	}
}
