package ual_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/kproxy"
)

// TestLocalInvalidate binds a window of type 2 and invalidates it, with one message each.
func TestLocalInvalidate(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	b := make([]byte, 64)
	mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite | ci.BindWindow})
	require.NoError(t, err)
	mw, err := p.pd.CreateMW(ci.MWCreate{Type: ci.MWType2})
	require.NoError(t, err)
	key := mw.Key()&^0xff | 0x5a
	post := func(q ci.QP, w ci.SendWR) ci.WC {
		w.Flags = ci.SendSignaled
		_, err := q.PostSend([]ci.SendWR{w})
		require.NoError(t, err)
		return p.wait(1)[0]
	}
	write := ci.SendWR{Op: ci.OpWrite, Inline: []byte("window"),
		Remote: ci.Remote{Addr: mr.Region().Addr, RKey: key}}

	require.NoError(t, post(p.b, ci.SendWR{Op: ci.OpBindMW, Ext: &ci.SendExt{Bind: ci.MWBind{MW: mw, MR: mr, Key: key,
		Addr: mr.Region().Addr, Length: 64, Access: ci.RemoteWrite}}}).Err())
	require.NoError(t, post(p.a, write).Err())
	require.Equal(t, "window", string(b[:6]))
	wc := post(p.b, ci.SendWR{Op: ci.OpLocalInv, Inv: key})
	require.NoError(t, wc.Err())
	require.Equal(t, ci.WCLocalInv, wc.Op)
	require.Equal(t, ci.WCRemAccessErr, post(p.a, write).Status)
	require.NoError(t, mr.Destroy(), "no window is bound to the region")
}

// withoutWindows is a driver that has fast registration and no windows of type 2.
func withoutWindows(h *reference.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return caWithoutWindows{ciwrap.CA{CA: c}} }})
}

type caWithoutWindows struct{ ciwrap.CA }

func (c caWithoutWindows) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps &^= ci.CapMW2
	}
	return a, err
}

// TestNoFastRegistration checks that processes have no fast registration, on an adapter that has it for the daemon.
func TestNoFastRegistration(t *testing.T) {
	for name, c := range map[string]struct {
		driver     func(*reference.HCA) ci.HCA
		invalidate ci.Status
	}{
		"with windows":    {func(h *reference.HCA) ci.HCA { return h }, ci.Success},
		"without windows": {withoutWindows, ci.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOf(t, kproxy.Config{}, c.driver)
			p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
			attr, err := p.ca.Query()
			require.NoError(t, err)
			assert.False(t, attr.Caps.Has(ci.CapFastReg))
			assert.Zero(t, attr.MaxFastRegPages)
			assert.Equal(t, c.invalidate == ci.Success, attr.Caps.Has(ci.CapMW2))

			_, err = p.pd.AllocFastRegMR(1)
			assert.ErrorIs(t, err, ci.Unsupported)
			_, err = p.ca.MapDMA(ci.Bytes(make([]byte, 64)))
			assert.ErrorIs(t, err, ci.Unsupported)
			n, err := p.a.PostSend([]ci.SendWR{{Op: ci.OpNop}, {Op: ci.OpFastReg, Ext: &ci.SendExt{}}})
			assert.ErrorIs(t, err, ci.Unsupported)
			assert.Equal(t, 1, n)
			_, err = p.a.PostSend([]ci.SendWR{{Op: ci.OpLocalInv, Inv: 5}})
			assert.Equal(t, c.invalidate, ci.StatusOf(err))
		})
	}
}
