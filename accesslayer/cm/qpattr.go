package cm

import (
	"ciddk/ci"
	"ciddk/mad"
)

// QPAttr implements Conn.
func (c *conn) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	const verb = "Conn.QPAttr"
	c.mu.Lock()
	defer c.mu.Unlock()
	unknown := func(what string) (ci.QPField, ci.QPAttr, error) {
		return 0, ci.QPAttr{}, &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: what + " is not known in state " +
			c.state.String()}
	}
	attr := c.port.a.Attr()
	path := &c.req.Primary
	index, _, err := c.port.a.FindPKey(path.Port.Num, path.PKey)
	if err != nil {
		return 0, ci.QPAttr{}, &ci.Error{Verb: verb, Status: ci.InvalidPKey,
			Detail: "the partition of the primary path", Err: err}
	}
	a := ci.QPAttr{State: to, Port: path.Port.Num}
	a.Primary = ci.Path{AV: path.AV, PKeyIndex: index}
	reliable := c.req.Service == mad.ServiceRC
	switch to {
	case ci.QPInit:
		return ci.QPFieldState | ci.QPFieldPort | ci.QPFieldPKeyIndex, a, nil
	case ci.QPRTR:
		if !c.peerQPKnown {
			return unknown("the peer's QP")
		}
		a.RQPSN = c.qp.StartPSN // each end chooses the starting PSN of the other (12.7.31)
		a.MTU = path.MTU
		if i := int(path.Port.Num) - 1; i < len(attr.Ports) {
			a.MTU = min(a.MTU, attr.Ports[i].MTUOf(path.AV.SL))
		}
		if c.active {
			a.DestNum = ci.QPN(c.rep.LocalQPN)
			a.RespRes = min(c.req.ResponderRes, c.rep.InitiatorDepth)
		} else {
			a.DestNum = ci.QPN(c.req.LocalQPN)
			a.RespRes = limit(c.req.InitiatorDepth, attr.MaxRespResPerQP)
		}
		if !reliable {
			a.RespRes = 0
			return ci.QPFieldsUCRTR, a, nil
		}
		return ci.QPFieldsRTR, a, nil
	case ci.QPRTS:
		set := ci.QPFieldsUCRTS
		if c.active && !c.peerQPKnown {
			return unknown("the peer's QP")
		}
		if a.SQPSN = ci.PSN(c.req.StartingPSN); c.active {
			a.SQPSN = ci.PSN(c.rep.StartingPSN)
		}
		if reliable {
			set = ci.QPFieldsRTS
			a.RetryCount = c.req.RetryCount
			if c.active {
				a.Primary.AckTimeout = ci.TimeExp(ackTimeout(path.LifeTime, c.rep.TargetAckDelay))
				a.RNRRetry, a.InitDepth = c.rep.RNRRetryCount, min(c.req.InitiatorDepth, c.rep.ResponderRes)
			} else {
				a.Primary.AckTimeout = ackTimeoutOf(&c.req.REQ.Primary)
				a.RNRRetry, a.InitDepth = c.req.RNRRetryCount, limit(c.req.ResponderRes, attr.MaxInitDepthPerQP)
				if c.accepted {
					a.InitDepth = c.rep.InitiatorDepth
				}
			}
		}
		if c.alternate != nil {
			more, err := c.alternateAttr(verb, &a)
			if err != nil {
				return 0, ci.QPAttr{}, err
			}
			set |= more
		}
		return set, a, nil
	}
	return 0, ci.QPAttr{}, invalid(verb, "the state is %v, want Init, RTR or RTS", to)
}

// AlternateAttr implements Conn.
func (c *conn) AlternateAttr() (ci.QPField, ci.QPAttr, error) {
	const verb = "Conn.AlternateAttr"
	c.mu.Lock()
	defer c.mu.Unlock()
	isAgreed := c.alternate != nil && (c.active && c.peerQPKnown || !c.active && c.accepted)
	if !isAgreed {
		return 0, ci.QPAttr{}, &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "there is no alternate path"}
	}
	var a ci.QPAttr
	set, err := c.alternateAttr(verb, &a)
	return set, a, err
}

// alternateAttr adds the attributes that load and arm the alternate path. The caller holds c.mu.
func (c *conn) alternateAttr(verb string, a *ci.QPAttr) (ci.QPField, error) {
	w := c.alternate
	index, _, err := c.port.a.FindPKey(w.Port.Num, w.PKey)
	if err != nil {
		return 0, &ci.Error{Verb: verb, Status: ci.InvalidPKey, Detail: "the partition of the alternate path", Err: err}
	}
	a.Alternate = ci.Path{AV: w.AV, PKeyIndex: index, AckTimeout: c.alternateAck}
	a.APM = ci.APMRearm
	return ci.QPFieldAlternate | ci.QPFieldAPM, nil
}
