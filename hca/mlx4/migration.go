package mlx4

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// Automatic path migration (IBTA volume 1, 17.2.8). The adapter arms a QP that has been rearmed, and migrates it by
// itself: the driver learns of both from the context of the QP. The alternate path is then the primary one.

// hwMigrations are the values of prm.QPCMigration.
var hwMigrations = [...]uint64{ci.APMMigrated: prm.MigrationMigrated, ci.APMRearm: prm.MigrationRearm,
	ci.APMArmed: prm.MigrationArmed}

// checkMigration checks a new alternate path and a requested migration state. modify is held.
func (q *qp) checkMigration(verb string, set ci.QPField, a *ci.QPAttr) error {
	if set&ci.QPFieldAlternate != 0 {
		if err := q.checkAlternate(verb, set, a); err != nil {
			return err
		}
	}
	if set&ci.QPFieldAPM == 0 {
		return nil
	}
	bad := func(detail string) error { return fail(verb, ci.InvalidAPMState, detail) }
	switch a.APM {
	case ci.APMRearm:
		if set&ci.QPFieldAlternate == 0 && q.attr.Alternate.AV.Port == 0 {
			return bad("no alternate path is loaded")
		}
		if q.attr.APM == ci.APMArmed {
			return bad("armed already")
		}
	case ci.APMMigrated:
		if q.attr.APM != ci.APMArmed {
			return bad("only an armed QP can be told to migrate")
		}
	default:
		return bad("a consumer asks for Rearm or Migrated")
	}
	return nil
}

// checkAlternate checks an alternate path.
func (q *qp) checkAlternate(verb string, set ci.QPField, a *ci.QPAttr) error {
	x := &a.Alternate
	p := q.hca.port(x.AV.Port)
	if p == nil {
		return fail(verb, ci.InvalidPort, "Alternate.AV.Port is not a port of the adapter")
	}
	if _, ok := p.pkey(x.PKeyIndex); !ok {
		return fail(verb, ci.InvalidPKey, "no P_Key at Alternate.PKeyIndex")
	}
	mtu := q.attr.MTU
	if set&ci.QPFieldMTU != 0 {
		mtu = a.MTU
	}
	switch {
	case x.AckTimeout > 31:
		return fail(verb, ci.InvalidParameter, "Alternate.AckTimeout is above 31")
	case p.isEthernet() != q.port().isEthernet():
		return fail(verb, ci.InvalidParameter, "the alternate path has another kind of link")
	case mtu > p.mtu():
		return fail(verb, ci.InvalidParameter, "the QP's MTU is above that of the port of the alternate path")
	}
	return p.checkAddress(verb, &x.AV)
}

// follow takes over the migration state of a context in the adapter. A state that the QP cannot have is ignored.
func (q *qp) follow(ctx []byte) {
	if q.attr.Alternate.AV.Port == 0 || q.attr.APM == ci.APMMigrated {
		return
	}
	switch prm.QPCMigration.Get(ctx) {
	case prm.MigrationArmed:
		q.attr.APM = ci.APMArmed
	case prm.MigrationMigrated:
		migrate(&q.attr)
		q.onPort.Store(int32(q.attr.Port))
	}
}

// migrate makes the alternate path the primary one.
func migrate(a *ci.QPAttr) {
	a.Primary, a.Alternate, a.APM = a.Alternate, ci.Path{}, ci.APMMigrated
	a.Port = a.Primary.AV.Port
}
