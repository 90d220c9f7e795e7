package mlx4

import "ciddk/ci"

const maxNumber = 1<<24 - 1 // of QPs and packets

// checkRanges checks the values of the attributes in set.
func (q *qp) checkRanges(verb string, set ci.QPField, a *ci.QPAttr, from ci.QPState) error {
	h := q.hca
	p := q.port()
	if set&ci.QPFieldPort != 0 {
		switch to := h.port(a.Port); {
		case to == nil || q.num < 2 && a.Port != q.attr.Port:
			return fail(verb, ci.InvalidPort, "not a port of the adapter, or not the one of the special QP")
		case from == ci.QPSQD && to != p:
			if err := q.checkMove(verb, set, to); err != nil {
				return err
			}
			p = to
		default:
			p = to
		}
	}
	if set&ci.QPFieldPKeyIndex != 0 {
		if _, ok := p.pkey(a.Primary.PKeyIndex); !ok {
			return fail(verb, ci.InvalidPKey, "no P_Key at this index")
		}
	}
	const access = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite | ci.BindWindow
	most := min(int(h.caps.MaxInitDepth), 128)
	for _, e := range []struct {
		f   ci.QPField
		bad bool
		d   string
	}{
		{ci.QPFieldAccess, a.Access&^access != 0, "unknown right in Access"},
		{ci.QPFieldDestNum, a.DestNum > maxNumber, "DestNum has more than 24 bits"},
		{ci.QPFieldRQPSN, a.RQPSN > maxNumber, "RQPSN has more than 24 bits"},
		{ci.QPFieldSQPSN, a.SQPSN > maxNumber, "SQPSN has more than 24 bits"},
		{ci.QPFieldMTU, a.MTU < ci.MTU256 || a.MTU > ci.MTU4096, "MTU is not a code of IBTA"},
		{ci.QPFieldMinRNRTimer, a.MinRNRTimer > 31, "MinRNRTimer is above 31"},
		{ci.QPFieldRetryCount, a.RetryCount > 7, "RetryCount is above 7"},
		{ci.QPFieldRNRRetry, a.RNRRetry > 7, "RNRRetry is above 7"},
		{ci.QPFieldAckTimeout, a.Primary.AckTimeout > 31, "AckTimeout is above 31"},
		{ci.QPFieldInitDepth, int(a.InitDepth) > most, "InitDepth is above MaxInitDepthPerQP"},
		{ci.QPFieldRespRes, int(a.RespRes) > int(h.caps.MaxRespDepth), "RespRes is above MaxRespResPerQP"},
	} {
		if set&e.f != 0 && e.bad {
			return fail(verb, ci.InvalidParameter, e.d)
		}
	}
	if set&ci.QPFieldMTU != 0 && a.MTU > p.mtu() {
		return fail(verb, ci.InvalidParameter, "MTU is above that of the port")
	}
	if set&ci.QPFieldPrimary != 0 {
		return p.checkAddress(verb, &a.Primary.AV)
	}
	return nil
}

// checkMove checks a change of the primary port of a drained QP.
func (q *qp) checkMove(verb string, set ci.QPField, to *port) error {
	switch {
	case !q.hca.claims.Has(ci.CapChangePrimaryPort):
		return fail(verb, ci.Unsupported, "change of the primary port")
	case set&ci.QPFieldPrimary == 0:
		return fail(verb, ci.InvalidParameter, "another primary port needs another primary path")
	case to.isEthernet() != q.port().isEthernet():
		return fail(verb, ci.InvalidParameter, "the port has another kind of link")
	case q.attr.MTU > to.mtu():
		return fail(verb, ci.InvalidParameter, "the QP's MTU is above that of the port")
	}
	if set&ci.QPFieldPKeyIndex == 0 {
		if _, ok := to.pkey(q.attr.Primary.PKeyIndex); !ok {
			return fail(verb, ci.InvalidPKey, "the port has no P_Key at the index of the QP")
		}
	}
	return nil
}

// checkAddress checks the address of a connection.
func (p *port) checkAddress(verb string, a *ci.AVAttr) error {
	bad := func(detail string) error { return fail(verb, ci.InvalidParameter, detail) }
	switch {
	case a.Port != 0 && a.Port != p.num:
		return fail(verb, ci.InvalidPort, "the port of the address is not that of the path")
	case a.SL > 15 || p.isEthernet() && a.SL > 7:
		return bad("SL is out of range")
	case a.GRH.FlowLabel > 0xfffff:
		return bad("FlowLabel has more than 20 bits")
	case p.isEthernet() && !a.Global:
		return bad("an address on an Ethernet port is its GID: AVAttr.Global must be set")
	case !p.isEthernet() && (a.DLID == 0 || a.DLID >= 0xc000):
		return bad("DLID is not that of one port")
	case !p.isEthernet() && a.PathBits > 0x7f:
		return bad("PathBits has more than 7 bits")
	}
	if a.Global || p.isEthernet() {
		if _, ok := p.gid(a.GRH.SGIDIndex); !ok {
			return bad("no GID at SGIDIndex")
		}
		if a.GRH.DGID == (ci.GID{}) {
			return bad("DGID is zero")
		}
	}
	if p.isEthernet() {
		if _, err := p.resolve(a); err != nil {
			return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the MAC address of DGID", Err: err}
		}
	}
	return nil
}

// apply copies the attributes in set.
func apply(to *ci.QPAttr, set ci.QPField, a *ci.QPAttr) {
	copyIf(set, ci.QPFieldAccess, &to.Access, a.Access)
	copyIf(set, ci.QPFieldPKeyIndex, &to.Primary.PKeyIndex, a.Primary.PKeyIndex)
	copyIf(set, ci.QPFieldPort, &to.Port, a.Port)
	copyIf(set, ci.QPFieldQKey, &to.QKey, a.QKey)
	copyIf(set, ci.QPFieldPrimary, &to.Primary.AV, a.Primary.AV)
	copyIf(set, ci.QPFieldMTU, &to.MTU, a.MTU)
	copyIf(set, ci.QPFieldAckTimeout, &to.Primary.AckTimeout, a.Primary.AckTimeout)
	copyIf(set, ci.QPFieldRetryCount, &to.RetryCount, a.RetryCount)
	copyIf(set, ci.QPFieldRNRRetry, &to.RNRRetry, a.RNRRetry)
	copyIf(set, ci.QPFieldMinRNRTimer, &to.MinRNRTimer, a.MinRNRTimer)
	copyIf(set, ci.QPFieldRQPSN, &to.RQPSN, a.RQPSN)
	copyIf(set, ci.QPFieldSQPSN, &to.SQPSN, a.SQPSN)
	copyIf(set, ci.QPFieldInitDepth, &to.InitDepth, a.InitDepth)
	copyIf(set, ci.QPFieldRespRes, &to.RespRes, a.RespRes)
	copyIf(set, ci.QPFieldDestNum, &to.DestNum, a.DestNum)
	copyIf(set, ci.QPFieldAlternate, &to.Alternate, a.Alternate)
	copyIf(set, ci.QPFieldAPM, &to.APM, a.APM)
}

// copyIf copies v if set contains f.
func copyIf[T any](set, f ci.QPField, to *T, v T) {
	if set&f != 0 {
		*to = v
	}
}
