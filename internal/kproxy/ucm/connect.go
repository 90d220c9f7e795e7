package ucm

import (
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/kproxy"
	"ciddk/mad"
)

// numberBits are the bits of a QP number.
const numberBits = 1<<24 - 1

// param returns the parameters of a request or of the reply to one. Error: EINVAL (the user has no such QP).
func (x *id) param(p *abi.ConnParam) (cmid.ConnParam, error) {
	qpn := ci.QPN(p.QPNum & numberBits)
	src := x.cm.Source()
	c := cmid.ConnParam{Private: p.PrivateData[:p.PrivateDataLen], Retries: exact(p.RetryCount & 7),
		RNRRetries: exact(p.RNRRetryCount & 7), QP: &cm.QP{Num: qpn, Type: x.typ, SRQ: p.SRQ != 0}}
	if x.front.cfg.Core.Owner(x.session().Peer().UID, src.Port.CA, qpn) == nil {
		return c, syscall.EINVAL
	}
	a, err := x.cm.Manager().AL().Adapter(src.Port.CA)
	if err != nil {
		return c, err
	}
	attr := a.Attr()
	c.ResponderResources = exact(uint8(min(int(p.ResponderResources), attr.MaxRespResPerQP)))
	c.InitiatorDepth = exact(uint8(min(int(p.InitiatorDepth), attr.MaxInitDepthPerQP)))
	x.front.mu.Lock()
	defer x.front.mu.Unlock()
	x.qpn, x.reads = qpn, p.ResponderResources
	return c, nil
}

// exact returns a number in the form of ConnParam, where 0 stands for the default.
func exact(n uint8) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// session returns the client's session.
func (x *id) session() *kproxy.Session {
	x.front.mu.Lock()
	defer x.front.mu.Unlock()
	return x.file.session
}

func (f *File) connect(_ *call, q *abi.Connect, _ *abi.None) error {
	if q.Param.Valid == 0 {
		return syscall.EINVAL
	}
	return f.placed(q.ID, func(x *id) error {
		c := cmid.ConnParam{Private: q.Param.PrivateData[:q.Param.PrivateDataLen]}
		if x.typ != ci.UD { // the sender of a lookup needs no QP
			var err error
			if c, err = x.param(&q.Param); err != nil {
				return err
			}
		}
		err := x.cm.StartConnect(c)
		x.hasBegun = x.hasBegun || err == nil
		return err
	})
}

// accept accepts a request or, without parameters, completes a connect.
func (f *File) accept(_ *call, q *abi.Accept, _ *abi.None) error {
	return f.placed(q.ID, func(x *id) error {
		if q.Param.Valid == 0 {
			err := x.cm.Establish()
			x.quarantine()
			return err
		}
		c, err := x.param(&q.Param)
		if err != nil {
			return err
		}
		was := x.setUID(q.UID) // before the event of the connection
		if err := x.cm.StartAccept(c); err != nil {
			x.setUID(was)
			return err
		}
		x.quarantine()
		return nil
	})
}

// setUID sets the number that the program has for an ID, and returns the one before.
func (x *id) setUID(uid uint64) (was uint64) {
	x.front.mu.Lock()
	defer x.front.mu.Unlock()
	was, x.uid = x.uid, uid
	return was
}

func (f *File) reject(_ *call, q *abi.Reject, _ *abi.None) error {
	reason := mad.RejReason(q.Reason)
	switch reason {
	case 0:
		reason = mad.RejConsumer
	case mad.RejConsumer, mad.RejVendorOption: // those that programs may send
	default:
		return syscall.EINVAL
	}
	return f.placed(q.ID, func(x *id) error { return x.cm.RejectFor(reason, q.PrivateData[:q.PrivateDataLen]) })
}

func (f *File) disconnect(_ *call, q *abi.Disconnect, _ *abi.None) error {
	return f.placed(q.ID, func(x *id) error {
		x.quarantine()
		err := x.cm.StartDisconnect()
		if ci.StatusOf(err) == ci.InvalidState && (x.hasBegun || x.cm.Request() != nil || x.isListener()) {
			return nil // as Linux: it has no connection yet, any more, or at all
		}
		return err
	})
}
