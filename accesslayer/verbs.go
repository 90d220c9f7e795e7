package accesslayer

import "ciddk/ci"

// The typed objects embed these, and thereby have every verb of the driver's object. Methods of the typed objects and
// of object take precedence. Verbs of the data path are not overridden: they go straight to the driver.
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

// Objects that argument structures of package ci take, and the views of the others, implement the interfaces of ci.
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

// during runs a verb of the driver with a reference held, so that the driver's destroy of the object comes after it.
func (n *node) during(verb string, f func() error) error {
	if err := n.enter(verb); err != nil {
		return err
	}
	defer n.leave()
	return f()
}

// nothing is the create of an object that the driver does not have.
func nothing() (func() error, error) { return nil, nil }

// destroyer returns the driver's destroy of o. If the create failed, o is nil and the function is not called.
func destroyer(o ci.Object) func() error { return func() error { return o.Destroy() } }

// made returns the result of a create: the object or an error.
func made[T any](o *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}

// asCI returns a typed object as an interface that it implements, and a nil interface with an error.
func asCI[I any, T any](o *T, err error) (i I, _ error) {
	if err != nil {
		return i, err
	}
	return any(o).(I), nil
}

// use appends the node of an object that a create names, which must be of the same access layer and HCA. A nil o is
// passed to the driver, which rejects it if it is required.
func use[T holder](uses []*node, ca *CA, verb string, k kind, what string, o any, hca func(T) *CA) ([]*node, error) {
	if o == nil {
		return uses, nil
	}
	if ci.IsNil(o) {
		return nil, &ci.Error{Verb: verb, Status: kinds[k].invalid, Detail: what + " is a nil pointer"}
	}
	t, ok := own[T](ca.n.al, o)
	if !ok || hca(t).a != ca.a {
		return nil, &ci.Error{Verb: verb, Status: kinds[k].invalid, Detail: what + " is not an object of this access " +
			"layer and HCA"}
	}
	return append(uses, t.node()), nil
}
