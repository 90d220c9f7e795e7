package userlib

import "ciddk/ci"

// The library of the template has no binds in its send queues, so a process that has the library has no windows. The
// user library of the reference HCA has them (hca/reference/userlib).

const windows = ci.CapMW1 | ci.CapMW2

// postQueryCA withholds the claims.
func postQueryCA(a *ci.UserQueryCA, _ *ci.UserBuffer, err error) {
	if err == nil {
		a.Attr.Caps &^= windows
		a.Attr.MaxMWs = 0
	}
}

func preCreateMW(*ci.UserCreateMW, *ci.UserBuffer) error {
	return &ci.Error{Verb: "PD.CreateMW", Status: ci.Unsupported}
}

var errBind error = &ci.Error{Verb: "QP.BindMW", Status: ci.Unsupported}

func bindMW(uint64, ci.SendFlags, ci.MWBind) (ci.Key, error) { return 0, errBind }
