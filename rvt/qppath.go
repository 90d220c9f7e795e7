package rvt

import "ciddk/ci"

// pathMTU returns the MTU that a Modify leaves the QP with.
func (q *QP) pathMTU(set ci.QPField, a *ci.QPAttr) ci.MTU {
	if set&ci.QPFieldMTU != 0 {
		return a.MTU
	}
	return q.attr.MTU
}

// pathSL returns the service level of the primary path after a Modify.
func (q *QP) pathSL(set ci.QPField, a *ci.QPAttr) ci.SL {
	if set&ci.QPFieldPrimary != 0 {
		return a.Primary.AV.SL
	}
	return q.attr.Primary.AV.SL
}
