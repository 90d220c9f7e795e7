package accesslayer

import (
	"errors"

	"ciddk/ci"
)

// wellKnownQKey is the Q_Key of QP1 (IBTA volume 1, 3.5.3 and 10.2.5).
const wellKnownQKey ci.QKey = 0x80010000

// InitDatagram takes a QP without a connection from Reset to RTS. For a UD QP, port and qkey are used. QP0 and QP1 have
// a port, and their Q_Key is 0 and the well-known one. If a step fails, the QP is in Reset again. Status:
// InvalidServiceType (RC, UC, RD, raw); as QP.Modify.
func (q *QP) InitDatagram(port uint8, qkey ci.QKey, pkeyIndex uint16) error {
	attr := ci.QPAttr{Port: port, QKey: qkey}
	attr.Primary.PKeyIndex = pkeyIndex
	fields := ci.QPFieldsUDInit
	switch q.typ {
	case ci.UD:
	case ci.QP0:
		fields, attr.QKey = ci.QPFieldsSpecial, 0
	case ci.QP1:
		fields, attr.QKey = ci.QPFieldsSpecial, wellKnownQKey
	default:
		return &ci.Error{Verb: "QP.InitDatagram", Status: ci.InvalidServiceType, Detail: "a QP of type " +
			q.typ.String() + " needs a connection (want UD, QP0 or QP1)"}
	}
	for _, step := range []struct {
		to  ci.QPState
		set ci.QPField
	}{{ci.QPInit, fields}, {ci.QPRTR, ci.QPFieldsUDRTR}, {ci.QPRTS, ci.QPFieldsUDRTS}} {
		attr.State = step.to
		if err := q.Modify(step.set, attr); err != nil {
			if step.to == ci.QPInit { // the driver changed nothing
				return err
			}
			return errors.Join(err, q.Modify(ci.ToReset()))
		}
	}
	return nil
}

// ForceAPM moves a connection to its alternate path, which must be loaded and armed. Status: as QP.Modify;
// InvalidAPMState.
func (q *QP) ForceAPM() error { return q.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}) }
