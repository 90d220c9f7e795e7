package usermutants

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
)

// driver returns drivers with a fault in their half of user mode.
func driver() []mutant.Mutant {
	at := func(name string, r *req.Requirement, does string, l ciwrap.Layer) mutant.Mutant {
		return mutant.Mutant{Name: name, Area: "user", Breaks: r.ID, Does: does, Needs: ci.CapUser, Wrap: l.Wrap}
	}
	return []mutant.Mutant{
		at("user.no-context", req.SAS2_4_01, "OpenUser is claimed, and fails for a process with the user library",
			ciwrap.Layer{CA: func(c ci.CA) ci.CA { return noContext{ciwrap.CA{CA: c}} }}),
		at("user.context-destroy-fails", req.SAS2_4_15, "UserCA.Destroy fails after the end of a process",
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
