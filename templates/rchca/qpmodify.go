package rchca

import (
	"net/netip"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/templates/rchca/userabi" // user.go
)

// Modify changes state and attributes. After an error nothing has changed. Status: InvalidQPState, Unsupported,
// InvalidParameter, InvalidPort, InvalidPKey, InvalidQPHandle, Timeout.
func (q *qp) Modify(set ci.QPField, a ci.QPAttr) error {
	const verb = "QP.Modify"
	if set&ci.QPFieldState != 0 && a.State == ci.QPReset {
		q.stopPosts()
		defer q.resumePosts()
	}
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.refs.Alive() {
		return fail(verb, ci.InvalidQPHandle, "")
	}
	data, err := openPrivate(verb, a.User) // user.go
	if err != nil {                        // user.go
		return err
	}
	a.User, a.Primary.AV.User = nil, nil // a is kept, and the private data must not be
	to, err := driver.CheckModify(q.create.Type, claims(), q.hca.dev.QPState(q.num), set, &a)
	if err != nil {
		return err
	}
	given := set &^ ci.QPFieldState
	if err := q.checkRanges(verb, given, &a); err != nil {
		return err
	}
	if err := q.hca.dev.ModifyQP(q.num, set, &a); err != nil {
		return commandError(verb, err)
	}
	if set&ci.QPFieldState != 0 && to == ci.QPReset {
		q.send.save()
		q.recv.save()
		q.clear()
	} else {
		Apply(&q.attr, given, &a)
		q.sq.enter(to)
		q.rq.enter(to)
	}
	data.answer(userabi.Answer{Number: uint32(q.num)}) // user.go
	return nil
}

// checkRanges checks the values of the attributes in set.
func (q *qp) checkRanges(verb string, set ci.QPField, a *ci.QPAttr) error {
	const rights = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite | ci.BindWindow
	i, port := &q.hca.info, q.hca.port()
	has := func(f ci.QPField, bad bool) bool { return set&f != 0 && bad }
	av := &a.Primary.AV
	switch {
	case has(ci.QPFieldPort, a.Port != 1), has(ci.QPFieldPrimary, av.Port != 1):
		return fail(verb, ci.InvalidPort, "the adapter has port 1")
	case has(ci.QPFieldPKeyIndex, !isPKey(&port, a.Primary.PKeyIndex)):
		return fail(verb, ci.InvalidPKey, "no P_Key at this index")
	case has(ci.QPFieldAccess, a.Access&^rights != 0), has(ci.QPFieldMTU, a.MTU < ci.MTU256 || a.MTU > port.MTU),
		has(ci.QPFieldDestNum, a.DestNum > 0xffffff), has(ci.QPFieldRQPSN, a.RQPSN > 0xffffff), has(ci.QPFieldSQPSN,
			a.SQPSN > 0xffffff),
		has(ci.QPFieldAckTimeout, a.Primary.AckTimeout > 31), has(ci.QPFieldRetryCount,
			a.RetryCount > 7), has(ci.QPFieldRNRRetry, a.RNRRetry > 7),
		has(ci.QPFieldMinRNRTimer, a.MinRNRTimer > 31), has(ci.QPFieldInitDepth, int(a.InitDepth) > i.MaxReads),
		has(ci.QPFieldRespRes, int(a.RespRes) > i.MaxReads),
		has(ci.QPFieldPrimary, !isPath(&port, av)):
		return fail(verb, ci.InvalidParameter, "a value is out of range")
	}
	return nil
}

// isPKey reports whether an entry of the P_Key table is valid.
func isPKey(p *ci.PortAttr, index uint16) bool {
	return int(index) < len(p.PKeys) && p.PKeys[index]&0x7fff != 0
}

// isPath reports whether a port can use an address for a connection.
func isPath(p *ci.PortAttr, av *ci.AVAttr) bool {
	if p.Link == ci.LinkInfiniBand { // sma.go
		isUnicast := av.DLID != 0 && av.DLID < 0xc000
		return isUnicast && (!av.Global || IsSource(p, &av.GRH))
	}
	return av.Global && IsSource(p, &av.GRH) && reaches(p.GIDs[av.GRH.SGIDIndex].GID, av.GRH.DGID)
}

// IsSource reports whether a GRH has a source GID of the port, and a flow label of 20 bits. The driver and the device
// in software use it.
func IsSource(p *ci.PortAttr, g *ci.GRH) bool {
	return int(g.SGIDIndex) < len(p.GIDs) && p.GIDs[g.SGIDIndex].GID != (ci.GID{}) && g.FlowLabel <= 0xfffff
}

// reaches reports whether there can be a connection between two GIDs: the second one is not that of a group.
func reaches(from, to ci.GID) bool {
	b := netip.AddrFrom16(to).Unmap()
	isBroadcast := b == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return SameFamily(from, to) && !b.IsMulticast() && !isBroadcast
}

// SameFamily reports whether two GIDs, which are IP addresses, are of one family. The driver and the device in software
// use it.
func SameFamily(from, to ci.GID) bool {
	a, b := netip.AddrFrom16(from).Unmap(), netip.AddrFrom16(to).Unmap()
	return !a.IsUnspecified() && !b.IsUnspecified() && a.Is4() == b.Is4()
}

// Apply copies the attributes in set. The driver and the device in software use it.
func Apply(to *ci.QPAttr, set ci.QPField, a *ci.QPAttr) {
	copyIf(set, ci.QPFieldAccess, &to.Access, a.Access)
	copyIf(set, ci.QPFieldPKeyIndex, &to.Primary.PKeyIndex, a.Primary.PKeyIndex)
	copyIf(set, ci.QPFieldQKey, &to.QKey, a.QKey)
	copyIf(set, ci.QPFieldPort, &to.Port, a.Port)
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
}

// copyIf copies v if set contains f.
func copyIf[T any](set, f ci.QPField, to *T, v T) {
	if set&f != 0 {
		*to = v
	}
}
