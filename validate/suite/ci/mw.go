package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// bindID is the id of the binds that bound makes.
const bindID = 0x62696e64

// bound makes a type 1 window over all of b, bound through e's QP.
func bound(e *kit.End, b *kit.Buf, a ci.Access) ci.MW {
	t := e.QP.CA.T
	w := e.QP.CA.MW(e.PD, ci.MWType1)
	rebind(t, e, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: b.Length, Access: a})
	return w
}

// rebind binds a type 1 window by its current key and waits for it. It gives the new key.
func rebind(t *validate.T, e *kit.End, w ci.MW, b ci.MWBind) ci.Key {
	b.MW, b.Key = w, w.Key()
	key, err := e.BindMW(bindID, ci.SendSignaled, b)
	kit.OK(t, err, "QP.BindMW")
	wc := e.CQ.WaitOK(bindID)[0]
	kit.Equal(t, "WC.Op of a bind", wc.Op, ci.WCBindMW)
	return key
}
