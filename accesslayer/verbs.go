package accesslayer

import "ciddk/ci"

// The typed objects embed these, and so have every verb of the driver's object, unhindered; methods of the typed objects and of
// object lie nearer, and take precedence. Verbs of the data path are not overridden: they go straight down.
type (
	caVerbs     struct{ ci.CA }
	userCAVerbs struct{ ci.UserCA }
	pdVerbs     struct{ ci.PD }
	avVerbs     struct{ ci.AV }
	cqVerbs     struct{ ci.CQ }
	srqVerbs    struct{ ci.SRQ }
	qpVerbs     struct{ ci.QP }
	mcastVerbs  struct{ ci.Mcast }
	mrVerbs     struct{ ci.MR }
	fmrVerbs    struct{ ci.FMR }
	mwVerbs     struct{ ci.MW }
	rddVerbs    struct{ ci.RDD }
	eecVerbs    struct{ ci.EEC }
	dmaVerbs    struct{ ci.DMA }
)

// All of them can stand in for the driver's.
var (
	_ ci.CA     = (*ciCA)(nil)
	_ ci.UserCA = (*ciUserCA)(nil)
	_ ci.PD     = (*ciPD)(nil)
	_ ci.AV     = (*AV)(nil)
	_ ci.CQ     = (*CQ)(nil)
	_ ci.SRQ    = (*SRQ)(nil)
	_ ci.QP     = (*QP)(nil)
	_ ci.Mcast  = (*Mcast)(nil)
	_ ci.MR     = (*MR)(nil)
	_ ci.FMR    = (*FMR)(nil)
	_ ci.MW     = (*MW)(nil)
	_ ci.RDD    = (*ciRDD)(nil)
	_ ci.EEC    = (*EEC)(nil)
	_ ci.DMA    = (*DMA)(nil)
)

// During runs a verb of the driver with a reference held, so that the driver's destroy of the object comes after it.
func (n *node) during(verb string, f func() error) error {
	if err := n.enter(verb); err != nil {
		return err
	}
	defer n.leave()
	return f()
}

// nothing is the create of an object without a driver's.
func nothing() (func() error, error) { return nil, nil }

// destroyer is the driver's destroy of o; o is nil if the create failed, and then the destroy is not called.
func destroyer(o ci.Object) func() error { return func() error { return o.Destroy() } }

// made is what a create returns: an object, or an error.
func made[T any](o *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}

// asCI returns a typed object as an interface that it implements, and nil as nil.
func asCI[I any, T any](o *T, err error) (i I, _ error) {
	if err != nil {
		return i, err
	}
	return any(o).(I), nil
}

// use finds the objects of this HCA that a create names, for their nodes. nil is left to the driver to refuse.
func use[T holder](uses []*node, ca *CA, verb string, k kind, what string, o any, hca func(T) *CA) ([]*node, error) {
	if o == nil {
		return uses, nil
	}
	if ci.IsNil(o) {
		return nil, &ci.Error{Verb: verb, Status: kinds[k].invalid, Detail: what + " is a nil pointer"}
	}
	t, ok := own[T](ca.n.al, o)
	if !ok || hca(t).a != ca.a {
		return nil, &ci.Error{Verb: verb, Status: kinds[k].invalid, Detail: what + " is not an object of this access layer and HCA"}
	}
	return append(uses, t.node()), nil
}
