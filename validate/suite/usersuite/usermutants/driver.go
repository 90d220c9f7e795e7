package usermutants

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
)

// driver returns drivers with a fault in their half of user mode.
func driver() []mutant.Mutant {
	at := func(name, breaks, does string, l ciwrap.Layer) mutant.Mutant {
		return mutant.Of(name, breaks, does, l.Wrap).Needing(ci.CapUser)
	}
	return []mutant.Mutant{
		at("user.no-context", "SAS-2.4-01", "OpenUser is claimed, and fails for a process with the user library",
			ciwrap.Layer{CA: func(c ci.CA) ci.CA { return noContext{ciwrap.CA{CA: c}} }}),
		at("user.context-destroy-fails", "SAS-2.4-15", "UserCA.Destroy fails after the end of a process",
			ciwrap.Layer{UserCA: func(u ci.UserCA,
				_ ci.Process) ci.UserCA {
				return stuckContext{ciwrap.UserCA{UserCA: u}}
			}}),
	}
}

type noContext struct{ ciwrap.CA }

func (c noContext) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	if ub != nil && (ub.Command != 0 || len(ub.In) > 0) {
		return nil, &ci.Error{Verb: "CA.OpenUser", Status: ci.InsufficientResources}
	}
	return c.CA.OpenUser(p, ub)
}

// stuckContext destroys the context and reports a failure.
type stuckContext struct{ ciwrap.UserCA }

func (u stuckContext) Destroy() error {
	if err := u.UserCA.Destroy(); err != nil {
		return err
	}
	return &ci.Error{Verb: "UserCA.Destroy", Status: ci.InvalidState}
}
