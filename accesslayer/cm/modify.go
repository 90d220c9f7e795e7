package cm

import "ciddk/ci"

// Modify moves a QP to a state as its connection says. From Reset that is Init, RTR, RTS, each its own call. access are the rights of
// the peer on this QP, and count on the way to Init.
// Errors: InvalidParameter (nil), those of Conn.QPAttr and of ci.QP.Modify.
func Modify(qp ci.QP, c Conn, to ci.QPState, access ci.Access) error {
	if ci.IsNil(qp) || ci.IsNil(c) {
		return invalid("cm.Modify", "a QP and a connection are needed")
	}
	set, attr, err := c.QPAttr(to)
	if err != nil {
		return err
	}
	if to == ci.QPInit {
		set |= ci.QPFieldAccess
		attr.Access = access
	}
	return qp.Modify(set, attr)
}
