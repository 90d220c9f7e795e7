package almutants

import (
	"context"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/mutant"
)

// loads are drivers with faults in what they call when their device appears and goes.
func loads() []mutant.Mutant {
	return []mutant.Mutant{
		load("al.goes-silently", "SAS-2.2-05", "the driver does not deregister its adapter", silent{}),
		load("al.comes-silently", "SAS-0-02", "the driver does not register its adapter", hidden{}),
		load("al.ignores-rejection", "CI-Load-01", "the driver ignores that its registration is rejected", deaf{}),
	}
}

// load returns a mutant that is loaded with another registrar, made from the one of the case.
func load(name, breaks, does string, like interface {
	over(ci.Registrar) ci.Registrar
}) mutant.Mutant {
	return mutant.Of(name, breaks, does, nil).Changing(func(t *validate.Target) {
		correct := t.Load
		if correct == nil {
			return
		}
		t.Load = func(ctx context.Context, to ci.Registrar) (func(bool) error, error) {
			return correct(ctx, like.over(to))
		}
	})
}

// silent does not deregister.
type silent struct{ ci.Registrar }

func (silent) over(r ci.Registrar) ci.Registrar { return silent{r} }

func (silent) Deregister(ci.GUID) error { return nil }

// hidden does not register.
type hidden struct{ ci.Registrar }

func (hidden) over(r ci.Registrar) ci.Registrar { return hidden{r} }

func (hidden) Register(ci.HCA) error { return nil }

func (hidden) Deregister(ci.GUID) error { return nil }

// deaf registers without a look at the result.
type deaf struct{ ci.Registrar }

func (deaf) over(r ci.Registrar) ci.Registrar { return deaf{r} }

func (d deaf) Register(h ci.HCA) error {
	_ = d.Registrar.Register(h)
	return nil
}
