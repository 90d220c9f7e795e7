package cm

import "ciddk/ci"

// Modify moves a QP to a state with the attributes of its connection. From Reset, call it for Init, RTR and RTS in that
// order. access are the peer's access rights to this QP; they are used for Init only.
// Errors: InvalidParameter (nil argument), those of Conn.QPAttr and of ci.QP.Modify.
func Modify(qp ci.QP, c Conn, to ci.QPState, access ci.Access) error {
	if ci.IsNil(qp) || ci.IsNil(c) {
		return invalid("cm.Modify", "the QP or the connection is nil")
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
