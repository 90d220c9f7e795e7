package cmid

import (
	"errors"
	"fmt"
	"net"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
)

// madeQP contains the objects that CreateQP created.
type madeQP struct {
	qp             *accesslayer.QP
	sendCQ, recvCQ *accesslayer.CQ
}

func (q *madeQP) close() error {
	var errs []error
	if q.qp != nil {
		errs = append(errs, failure.UnlessGone(q.qp.Destroy()))
	}
	if q.sendCQ != nil {
		errs = append(errs, failure.UnlessGone(q.sendCQ.Destroy()))
	}
	if q.recvCQ != nil && q.recvCQ != q.sendCQ {
		errs = append(errs, failure.UnlessGone(q.recvCQ.Destroy()))
	}
	return errors.Join(errs...)
}

// defaultDepth is the default depth of queues.
const defaultDepth = 16

// CreateQP creates the ID's QP, and its CQs if cfg has none, and moves it to Init (UD: to RTS), so that receives can be
// posted. Close destroys what it created. Errors: InvalidState (no address is resolved yet, or there is a QP),
// InvalidParameter (an SRQ without RecvCQ, or OneCQ with a CQ or an SRQ), those of accesslayer.PD.NewQP and NewCQ and
// of ci.QP.Modify.
func (i *ID) CreateQP(cfg QPConfig) error {
	return i.fail("create QP", i.createQP(cfg))
}

func (i *ID) createQP(cfg QPConfig) error {
	if err := i.withoutQP("CreateQP"); err != nil {
		return err
	}
	pd := cfg.PD
	if pd == nil {
		var err error
		if pd, err = i.PD(); err != nil {
			return err
		}
	}
	c := ci.QPCreate{QPCaps: cfg.Caps, Type: i.typ, Flags: cfg.Flags, SendCQ: cfg.SendCQ, RecvCQ: cfg.RecvCQ,
		SRQ: cfg.SRQ}
	if cfg.OneCQ && (c.SendCQ != nil || c.RecvCQ != nil || c.SRQ != nil) {
		return failure.Invalid("ID.CreateQP", "OneCQ excludes SendCQ, RecvCQ and SRQ")
	}
	if c.SRQ != nil && c.RecvCQ == nil {
		return failure.Invalid("ID.CreateQP", "a QP with an SRQ needs a RecvCQ with room for the receives of the SRQ")
	}
	for _, n := range []*int{&c.SendDepth, &c.RecvDepth} {
		if *n == 0 && (n == &c.SendDepth || c.SRQ == nil) {
			*n = defaultDepth
		}
	}
	for _, n := range []*int{&c.SendSGE, &c.RecvSGE} {
		if *n == 0 {
			*n = 1
		}
	}
	if cfg.KeepAlive.Enable {
		c.SendDepth++
	}
	made := &madeQP{}
	err := i.makeQP(made, pd, c, cfg)
	if err != nil {
		return errors.Join(err, made.close())
	}
	return nil
}

func (i *ID) makeQP(made *madeQP, pd *accesslayer.PD, c ci.QPCreate, cfg QPConfig) (err error) {
	if cfg.OneCQ {
		both := ci.CQCreate{Size: c.SendDepth + c.RecvDepth}
		if made.sendCQ, err = pd.NewCQ(both, accesslayer.CQHandler{}); err != nil {
			return err
		}
		made.recvCQ = made.sendCQ
		c.SendCQ, c.RecvCQ = made.sendCQ, made.sendCQ
	}
	if c.SendCQ == nil {
		if made.sendCQ, err = pd.NewCQ(ci.CQCreate{Size: c.SendDepth}, accesslayer.CQHandler{}); err != nil {
			return err
		}
		c.SendCQ = made.sendCQ
	}
	if c.RecvCQ == nil {
		if made.recvCQ, err = pd.NewCQ(ci.CQCreate{Size: c.RecvDepth}, accesslayer.CQHandler{}); err != nil {
			return err
		}
		c.RecvCQ = made.recvCQ
	}
	made.qp, err = pd.NewQP(c, func(q *accesslayer.QP, e ci.Event) {
		if e.Type == ci.EventQPComm {
			_ = i.Notify() // an error means that it was not necessary
		}
		if cfg.OnEvent != nil {
			cfg.OnEvent(q, e)
		}
	})
	if err != nil {
		return err
	}
	var alive *keepAlive
	if cfg.KeepAlive.Enable {
		if alive, err = i.newKeepAlive("ID.CreateQP", made.qp, cfg.KeepAlive); err != nil {
			return err
		}
	}
	return i.takeQP(made.qp, made, cfg.Access, alive)
}

// UseQP makes a QP of the caller's the ID's, and moves it as CreateQP does. The QP must be in Reset; access is as
// QPConfig.Access. The caller destroys it after the ID was closed.
// Errors: InvalidParameter (nil), InvalidState, InvalidServiceType (a QP of another type), those of ci.QP.Modify.
func (i *ID) UseQP(qp ci.QP, access ci.Access) error { return i.fail("use QP", i.useQP(qp, access)) }

func (i *ID) useQP(qp ci.QP, access ci.Access) error {
	if ci.IsNil(qp) {
		return failure.Invalid("ID.UseQP", "the QP is nil")
	}
	if err := i.withoutQP("UseQP"); err != nil {
		return err
	}
	attr, err := qp.Query()
	if err != nil {
		return err
	}
	if attr.Type != i.typ {
		detail := fmt.Sprintf("the QP is of type %v, the ID needs %v", attr.Type, i.typ)
		return &ci.Error{Verb: "ID.UseQP", Status: ci.InvalidServiceType, Detail: detail}
	}
	return i.takeQP(qp, nil, access, nil)
}

func (i *ID) withoutQP(verb string) error {
	i.mu.Lock()
	has, s := i.qp != nil, i.state
	i.mu.Unlock()
	switch {
	case s == closed:
		return net.ErrClosed
	case has:
		return failure.InvalidState("ID."+verb, "the ID has a QP")
	case s > routeResolved && s != requested:
		return failure.InvalidState("ID."+verb, "the ID is in the state: %v", s)
	}
	_, err := i.placed(verb)
	return err
}

// takeQP moves a QP to the state in which receives can be posted, and makes it the ID's.
func (i *ID) takeQP(qp ci.QP, made *madeQP, access ci.Access, alive *keepAlive) error {
	if access == 0 {
		access = i.allAccess()
	}
	steps := []ci.QPState{ci.QPInit}
	if i.typ == ci.UD {
		steps = append(steps, ci.QPRTR, ci.QPRTS)
	}
	for _, to := range steps {
		set, attr, err := i.ownAttr(to)
		if err != nil {
			return err
		}
		if i.typ != ci.UD {
			set |= ci.QPFieldAccess
			attr.Access = access
		}
		if err := qp.Modify(set, attr); err != nil {
			return err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.state == closed:
		return net.ErrClosed
	case i.qp != nil:
		return failure.InvalidState("ID.CreateQP", "the ID has a QP")
	}
	i.qp, i.made = qp, made
	i.access, i.alive = access, alive
	return nil
}

// allAccess returns all rights that the QP can grant to the peer. A memory region has to grant them as well.
func (i *ID) allAccess() ci.Access {
	access := ci.RemoteWrite
	if i.typ == ci.RC {
		access |= ci.RemoteRead
		if a, err := i.m.al.Adapter(i.Source().Port.CA); err == nil && a.Attr().Atomicity != ci.AtomicNone {
			access |= ci.RemoteAtomic
		}
	}
	return access
}

// ownAttr returns the attributes that do not depend on the peer: of a connected QP for Init, of one for datagrams for
// all states.
func (i *ID) ownAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	const verb = "ID.QPAttr"
	src, err := i.placed("QPAttr")
	if err != nil {
		return 0, ci.QPAttr{}, err
	}
	attr := ci.QPAttr{State: to}
	switch {
	case to == ci.QPInit:
		a, err := i.m.al.Adapter(src.Port.CA)
		if err != nil {
			return 0, attr, err
		}
		pkey := i.Path().PKey
		if pkey == 0 {
			pkey = i.cfg.PKey
		}
		if pkey == 0 {
			pkey = defaultPKey
		}
		attr.Port = src.Port.Num
		if attr.Primary.PKeyIndex, _, err = a.FindPKey(src.Port.Num, pkey); err != nil {
			return 0, attr, err
		}
		if i.typ == ci.UD {
			attr.QKey = QKey
			return ci.QPFieldsUDInit, attr, nil
		}
		return ci.QPFieldsInit &^ ci.QPFieldAccess, attr, nil
	case i.typ == ci.UD && to == ci.QPRTR:
		return ci.QPFieldsUDRTR, attr, nil
	case i.typ == ci.UD && to == ci.QPRTS:
		attr.SQPSN = i.psn()
		return ci.QPFieldsUDRTS, attr, nil
	}
	return 0, attr, failure.InvalidState(verb, "the attributes of the peer's QP are not known yet")
}

const defaultPKey ci.PKey = 0xffff

// psn returns a starting PSN. It is not 0, for which the connection manager would choose one.
func (i *ID) psn() ci.PSN { return ci.PSN(i.m.random()%0xffffff) + 1 }

// QPAttr returns the attributes with which the caller moves a QP of its own to Init, RTR or RTS. The caller adds access
// rights to Init. For datagrams they are available before there is a peer. Status: InvalidState (not known yet).
func (i *ID) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	c := i.Conn()
	if c == nil || to == ci.QPInit {
		return i.ownAttr(to)
	}
	return c.QPAttr(to)
}

// move moves the ID's QP to states of the connection. cut, if not nil, changes the attributes.
func (i *ID) move(c cm.Conn, cut func(*ci.QPAttr), to ...ci.QPState) error {
	for _, s := range to {
		set, attr, err := c.QPAttr(s)
		if err != nil {
			return err
		}
		if cut != nil {
			cut(&attr)
		}
		if err := i.QP().Modify(set, attr); err != nil {
			return err
		}
	}
	return nil
}
